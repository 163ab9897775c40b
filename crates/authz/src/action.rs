//! Actions. Each action has its own type, so that the compiler rejects a permit for another action.

/// An action that a [`Permit`](super::permit::Permit) can allow.
pub trait Action: Send + Sync + 'static {
    /// Name in policies and in the audit log. It stays the same if the type is renamed.
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
    /// See a warehouse, and get its client configuration.
    ReadConfig = "ReadConfig"
    /// Create, change and delete a warehouse.
    ManageWarehouse = "ManageWarehouse"
    /// List the names below a namespace or the root.
    List = "List"
    /// Read the properties of a namespace, or check whether it exists.
    DescribeNamespace = "DescribeNamespace"
    /// Create a namespace.
    CreateNamespace = "CreateNamespace"
    /// Change a namespace's properties.
    UpdateNamespace = "UpdateNamespace"
    /// Drop a namespace.
    DropNamespace = "DropNamespace"
    /// Read the metadata of a table, view or function, or check whether it exists.
    Load = "Load"
    /// Create a table, view or function.
    Create = "Create"
    /// Register an existing metadata file.
    Register = "Register"
    /// Commit changes to a table or view. In policies, this is a group that contains one action for
    /// each kind of change. Its permit is created only if the policies allow the action of each
    /// kind of change in the commit.
    Commit = "Commit"
    /// Commit added, replaced or deleted rows.
    CommitData = "CommitData"
    /// Commit changes of the schema of a table or the definition of a view or function.
    CommitSchema = "CommitSchema"
    /// Commit changes of properties.
    CommitProperties = "CommitProperties"
    /// Commit changes of branches or tags, except writes to a branch.
    CommitRefs = "CommitRefs"
    /// Commit changes of the location of a table or view.
    CommitLocation = "CommitLocation"
    /// Rename a table or view.
    Rename = "Rename"
    /// Drop a table, view or function from the catalog.
    Drop = "Drop"
    /// Drop a table together with its files.
    Purge = "Purge"
    /// Restore a dropped namespace, table, view or function. The resource has the former name.
    Undrop = "Undrop"
    /// End the retention of a dropped namespace, table or view, and delete its files.
    PurgeNow = "PurgeNow"
    /// Protect a warehouse or something in it against removal, and lift the protection.
    Protect = "Protect"
    /// Set and remove labels of a table or view and of its columns.
    ManageLabels = "ManageLabels"
    /// Report metrics of a scan or a commit.
    ReportMetrics = "ReportMetrics"
    /// Get credentials to read a table's files.
    ReadData = "ReadData"
    /// Read a table as an engine that applies read restrictions: get scan plans, and credentials to
    /// read the files, despite a row filter or column masks.
    ReadRestricted = "ReadRestricted"
    /// Read those files of a table in which statistics prove that the row filter permits every row:
    /// get scan plans with these files, and signatures to read them.
    ReadPermittedFiles = "ReadPermittedFiles"
    /// Get credentials to write a table's files.
    WriteData = "WriteData"
    /// Create and revoke grants.
    ManageGrants = "ManageGrants"
    /// Read policies and grants, and evaluate permissions of others.
    ReadPolicies = "ReadPolicies"
    /// Read the change log.
    ReadHistory = "ReadHistory"
    /// Follow the change feed.
    Watch = "Watch"
    /// Change policies.
    ManagePolicies = "ManagePolicies"
    /// List API keys.
    ReadKeys = "ReadKeys"
    /// Create and revoke API keys.
    ManageKeys = "ManageKeys"
    /// See and cancel the background jobs of a warehouse.
    ManageJobs = "ManageJobs"
    /// See and change the keys that encrypt the store.
    ManageEncryption = "ManageEncryption"
    /// Create, list and delete checkpoints of the catalog.
    ManageCheckpoints = "ManageCheckpoints"
    /// See webhooks, and create, suspend, resume and delete them.
    ManageWebhooks = "ManageWebhooks"
    /// See, store and delete the positions of consumers of the change feed.
    ManageCursors = "ManageCursors"
    /// See the members of the cluster.
    ReadCluster = "ReadCluster"
    /// Pause the cluster.
    PauseCluster = "PauseCluster"
    /// Make another member of the cluster the writer.
    TransferWriter = "TransferWriter"
    /// Change records, as the server's background tasks do. Policies cannot refer to this action.
    Maintain = "Maintain"
}
