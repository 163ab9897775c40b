//! [`ChangeAction`]: the actions in the change log.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Defines the actions with their names in the change log.
macro_rules! change_actions {
    ($($variant:ident = $name:literal,)+) => {
        /// An action that changes the catalog. The change log stores its name, and clients of the
        /// history and of the change feed see it. So a name never changes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ChangeAction {
            $(#[doc = concat!("`", $name, "`")] $variant,)+
        }

        impl ChangeAction {
            /// All actions.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the action with this name. `None` if only a newer version of slateberg
            /// knows the action.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

change_actions! {
    CreateWarehouse = "create_warehouse",
    UpdateWarehouse = "update_warehouse",
    DeleteWarehouse = "delete_warehouse",
    CreateNamespace = "create_namespace",
    UpdateNamespaceProperties = "update_namespace_properties",
    DropNamespace = "drop_namespace",
    UndropNamespace = "undrop_namespace",
    CreateTable = "create_table",
    RegisterTable = "register_table",
    CommitTable = "commit_table",
    CommitTransaction = "commit_transaction",
    ExpireSnapshots = "expire_snapshots",
    RewriteManifests = "rewrite_manifests",
    RenameTable = "rename_table",
    DropTable = "drop_table",
    PurgeTable = "purge_table",
    UnregisterTable = "unregister_table",
    UndropTable = "undrop_table",
    CreateView = "create_view",
    RegisterView = "register_view",
    CommitView = "commit_view",
    RenameView = "rename_view",
    DropView = "drop_view",
    UndropView = "undrop_view",
    PurgeDropped = "purge_dropped",
    DeleteDropped = "delete_dropped",
    CreateFunction = "create_function",
    ReplaceFunction = "replace_function",
    DropFunction = "drop_function",
    UndropFunction = "undrop_function",
    Protect = "protect",
    Unprotect = "unprotect",
    UpdateLabels = "update_labels",
    PutPolicy = "put_policy",
    RemovePolicy = "remove_policy",
    RollBackPolicies = "roll_back_policies",
    Grant = "grant",
    Revoke = "revoke",
    CreateApiKey = "create_api_key",
    RevokeApiKey = "revoke_api_key",
    StartJob = "start_job",
    CancelJob = "cancel_job",
    CreateWebhook = "create_webhook",
    SuspendWebhook = "suspend_webhook",
    ResumeWebhook = "resume_webhook",
    RotateWebhookSecret = "rotate_webhook_secret",
    DeleteWebhook = "delete_webhook",
    CreateCursor = "create_cursor",
    DeleteCursor = "delete_cursor",
    CreateCheckpoint = "create_checkpoint",
    DeleteCheckpoint = "delete_checkpoint",
    RotateDataKey = "rotate_data_key",
    RewrapDataKeys = "rewrap_data_keys",
    TransferWriter = "transfer_writer",
    PauseCluster = "pause_cluster",
    Import = "import",
    Restore = "restore",
    Clone = "clone",
}

impl fmt::Display for ChangeAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The action of an entry of the change log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum LoggedAction {
    /// An action of this version of slateberg.
    Known(ChangeAction),
    /// The name of an action that only a newer version of slateberg knows.
    Unknown(String),
}

impl LoggedAction {
    /// Returns the name of the action.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(action) => action.as_str(),
            Self::Unknown(name) => name,
        }
    }
}

impl fmt::Display for LoggedAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<ChangeAction> for LoggedAction {
    fn from(action: ChangeAction) -> Self {
        Self::Known(action)
    }
}

impl From<String> for LoggedAction {
    fn from(name: String) -> Self {
        ChangeAction::from_name(&name).map_or(Self::Unknown(name), Self::Known)
    }
}

impl From<LoggedAction> for String {
    fn from(action: LoggedAction) -> Self {
        match action {
            LoggedAction::Known(action) => action.as_str().to_owned(),
            LoggedAction::Unknown(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_each_action_leads_back_to_the_action() {
        for action in ChangeAction::ALL {
            assert_eq!(LoggedAction::from(action.as_str().to_owned()), action.into());
        }
    }

    /// The change logs of users contain these names.
    #[test]
    fn names_of_actions_are_those_in_existing_change_logs() {
        let names = ChangeAction::ALL.map(ChangeAction::as_str).join(" ");
        assert_eq!(
            names,
            "create_warehouse update_warehouse delete_warehouse create_namespace \
             update_namespace_properties drop_namespace undrop_namespace create_table \
             register_table commit_table commit_transaction expire_snapshots rewrite_manifests rename_table \
             drop_table purge_table unregister_table undrop_table create_view register_view \
             commit_view rename_view drop_view undrop_view purge_dropped delete_dropped \
             create_function replace_function drop_function undrop_function protect unprotect \
             update_labels put_policy remove_policy roll_back_policies grant revoke create_api_key \
             revoke_api_key start_job cancel_job create_webhook suspend_webhook resume_webhook \
             rotate_webhook_secret delete_webhook create_cursor delete_cursor \
             create_checkpoint delete_checkpoint rotate_data_key rewrap_data_keys transfer_writer \
             pause_cluster import restore clone"
        );
    }
}
