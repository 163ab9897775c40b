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
    /// Seeing the names below a namespace or the root.
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
    /// Changing a table or view.
    Commit
    /// Giving a table or view another name.
    Rename
    /// Taking a table or view out of the catalog.
    Drop
    /// Dropping a table together with its files.
    Purge
    /// Telling the catalog what a scan or a commit cost.
    ReportMetrics
    /// What slateberg's own background tasks do to the records.
    Maintain
}
