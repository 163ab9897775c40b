//! What can be done: one type for each action, so that a permit for one cannot pass for another.

/// An action that a [`Permit`](super::permit::Permit) can allow.
pub trait Action: Send + Sync + 'static {
    /// Its name in policies and in the audit log: a fixed string, not the name of the type.
    const NAME: &'static str;
}

macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident = $in_policies:literal)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy)]
            pub enum $name {}

            impl Action for $name {
                const NAME: &'static str = $in_policies;
            }
        )*
    };
}

actions! {
    /// Seeing that a warehouse is there, and its client configuration.
    ReadConfig = "ReadConfig"
    /// Making, changing and deleting a warehouse.
    ManageWarehouse = "ManageWarehouse"
    /// Asking for the names below a namespace or the root.
    List = "List"
    /// Reading a namespace's properties, or that it exists.
    DescribeNamespace = "DescribeNamespace"
    /// Making a namespace.
    CreateNamespace = "CreateNamespace"
    /// Changing a namespace's properties.
    UpdateNamespace = "UpdateNamespace"
    /// Dropping a namespace.
    DropNamespace = "DropNamespace"
    /// Reading the metadata of a table or view, or that it exists.
    Load = "Load"
    /// Making a table or view.
    Create = "Create"
    /// Bringing an existing metadata file into the catalog.
    Register = "Register"
    /// Changing a table or view, in all the ways that a commit changes it. In policies it is the group of the
    /// kinds of commits; a permit for it stands for a permit for each kind in the commit.
    Commit = "Commit"
    /// A commit that adds, replaces or deletes rows.
    CommitData = "CommitData"
    /// A commit that changes what a table is made of, or what a view says.
    CommitSchema = "CommitSchema"
    /// A commit that sets or removes properties.
    CommitProperties = "CommitProperties"
    /// A commit that changes branches or tags, otherwise than by writing to a branch.
    CommitRefs = "CommitRefs"
    /// A commit that moves the place of a table's or view's files.
    CommitLocation = "CommitLocation"
    /// Giving a table or view another name.
    Rename = "Rename"
    /// Taking a table or view out of the catalog.
    Drop = "Drop"
    /// Dropping a table together with its files.
    Purge = "Purge"
    /// Telling the catalog what a scan or a commit cost.
    ReportMetrics = "ReportMetrics"
    /// Getting credentials to read a table's files.
    ReadData = "ReadData"
    /// Getting credentials to write a table's files.
    WriteData = "WriteData"
    /// Granting and revoking.
    ManageGrants = "ManageGrants"
    /// Reading policies and grants, and asking what others may do.
    ReadPolicies = "ReadPolicies"
    /// Changing policies.
    ManagePolicies = "ManagePolicies"
    /// Listing API keys.
    ReadKeys = "ReadKeys"
    /// Making and revoking API keys.
    ManageKeys = "ManageKeys"
    /// Seeing and cancelling the background jobs of a warehouse.
    ManageJobs = "ManageJobs"
    /// Seeing and changing the keys that encrypt what slateberg keeps.
    ManageEncryption = "ManageEncryption"
    /// Making, listing and deleting checkpoints of the catalog.
    ManageCheckpoints = "ManageCheckpoints"
    /// What slateberg's own background tasks do to the records. No policy speaks of it.
    Maintain = "Maintain"
}
