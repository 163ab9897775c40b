//! What can be done: one type for each action, so that a permit for one cannot pass for another.

/// An action that a [`Permit`](super::permit::Permit) can allow.
pub trait Action: Send + Sync + 'static {
    /// Its name in policies and logs.
    const NAME: &'static str;
}

macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy)]
            pub enum $name {}

            impl Action for $name {
                const NAME: &'static str = stringify!($name);
            }
        )*
    };
}

actions! {
    /// Seeing that a warehouse is there, and its client configuration.
    ReadConfig
    /// Making, changing and deleting a warehouse.
    ManageWarehouse
    /// Asking for the names below a namespace or the root.
    List
    /// Reading a namespace's properties, or that it exists.
    DescribeNamespace
    /// Making a namespace.
    CreateNamespace
    /// Changing a namespace's properties.
    UpdateNamespace
    /// Dropping a namespace.
    DropNamespace
    /// Reading the metadata of a table or view, or that it exists.
    Load
    /// Making a table or view.
    Create
    /// Bringing an existing metadata file into the catalog.
    Register
    /// Changing a table or view, in all the ways that a commit changes it. In policies it is the group of the
    /// kinds of commits; a permit for it stands for a permit for each kind in the commit.
    Commit
    /// A commit that adds, replaces or deletes rows.
    CommitData
    /// A commit that changes what a table is made of, or what a view says.
    CommitSchema
    /// A commit that sets or removes properties.
    CommitProperties
    /// A commit that changes branches or tags, otherwise than by writing to a branch.
    CommitRefs
    /// A commit that moves the place of a table's or view's files.
    CommitLocation
    /// Giving a table or view another name.
    Rename
    /// Taking a table or view out of the catalog.
    Drop
    /// Dropping a table together with its files.
    Purge
    /// Telling the catalog what a scan or a commit cost.
    ReportMetrics
    /// Getting credentials to read a table's files.
    ReadData
    /// Getting credentials to write a table's files.
    WriteData
    /// Granting and revoking.
    ManageGrants
    /// Reading policies and grants, and asking what others may do.
    ReadPolicies
    /// Changing policies.
    ManagePolicies
    /// Listing API keys.
    ReadKeys
    /// Making and revoking API keys.
    ManageKeys
    /// Seeing and cancelling the background jobs of a warehouse.
    ManageJobs
    /// Seeing and changing the keys that encrypt what slateberg keeps.
    ManageEncryption
    /// Making, listing and deleting checkpoints of the catalog.
    ManageCheckpoints
    /// What slateberg's own background tasks do to the records. No policy speaks of it.
    Maintain
}
