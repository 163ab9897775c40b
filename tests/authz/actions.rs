//! The schema and the code have the same actions.

use std::collections::BTreeSet;

use slateberg_authz::action::{
    Action, Commit, CommitData, CommitLocation, CommitProperties, CommitRefs, CommitSchema, Create,
    CreateNamespace, DescribeNamespace, Drop, DropNamespace, List, Load, Maintain,
    ManageCheckpoints, ManageCursors, ManageEncryption, ManageGrants, ManageJobs, ManageKeys,
    ManageLabels, ManagePolicies, ManageWarehouse, ManageWebhooks, PauseCluster, Protect, Purge,
    PurgeNow, ReadCluster, ReadConfig, ReadData, ReadHistory, ReadKeys, ReadPermittedFiles,
    ReadPolicies, ReadRestricted, Register, Rename, ReportMetrics, TransferWriter, Undrop,
    UpdateNamespace, Watch, WriteData,
};
use slateberg_authz::schema::Schema;

#[test]
fn actions_of_the_schema_and_types_are_the_same() {
    let types = BTreeSet::from([
        CommitData::NAME,
        CommitLocation::NAME,
        CommitProperties::NAME,
        CommitRefs::NAME,
        CommitSchema::NAME,
        Create::NAME,
        CreateNamespace::NAME,
        DescribeNamespace::NAME,
        Drop::NAME,
        DropNamespace::NAME,
        List::NAME,
        Load::NAME,
        ManageCheckpoints::NAME,
        ManageCursors::NAME,
        ManageEncryption::NAME,
        ManageGrants::NAME,
        ManageJobs::NAME,
        ManageKeys::NAME,
        ManageLabels::NAME,
        ManagePolicies::NAME,
        ManageWarehouse::NAME,
        ManageWebhooks::NAME,
        PauseCluster::NAME,
        Protect::NAME,
        Purge::NAME,
        PurgeNow::NAME,
        ReadCluster::NAME,
        ReadConfig::NAME,
        ReadData::NAME,
        ReadHistory::NAME,
        ReadKeys::NAME,
        ReadPermittedFiles::NAME,
        ReadPolicies::NAME,
        ReadRestricted::NAME,
        Register::NAME,
        Rename::NAME,
        ReportMetrics::NAME,
        TransferWriter::NAME,
        Undrop::NAME,
        UpdateNamespace::NAME,
        Watch::NAME,
        WriteData::NAME,
    ]);
    let schema = Schema::bundled();
    assert_eq!(schema.actions().collect::<BTreeSet<_>>(), types);
    // In the schema, `Commit` is a group of the actions for the kinds of changes. Maintenance is
    // not an action of policies.
    assert_eq!(
        schema.members(Commit::NAME),
        ["CommitData", "CommitProperties", "CommitRefs", "CommitSchema"]
    );
    assert!(schema.members(Maintain::NAME).is_empty());
}

#[test]
fn writer_role_lacks_the_actions_of_owners() {
    let schema = Schema::bundled();
    let write: BTreeSet<_> = schema.members("Write").into_iter().collect();
    for action in ["Purge", "Register", "CommitLocation", "ManageGrants"] {
        assert!(!write.contains(action), "{action}");
        assert!(schema.members("Own").contains(&action), "{action}");
    }
}
