//! Evaluates one request for all names of a page. Work that depends only on the principal, the
//! action and the container is done once.
//!
//! Most policies are skipped for the whole page, because their scopes do not match the principal,
//! the action or the container. Most other policies have the same result for every name. The
//! results of the rest depend on the name. A policy about one name is evaluated only for that name.
//! A policy with conditions on the resource is evaluated only once for all names that the
//! conditions cannot distinguish (`distinctions`).
//!
//! The result for each name equals that of [`PolicySet::decide`]; a property test compares the two.

use std::collections::{BTreeSet, HashMap, HashSet};

use cedar_policy::{
    Effect, Entity, EntityTypeName, EntityUid, PolicySet as CedarSet, Request, ResourceConstraint,
};
use smol_str::SmolStr;

use super::context::Context;
use super::decide::in_scope;
use super::distinctions::{DistinctValues, Distinctions};
use super::entities::Path;
use super::policy_set::PolicySet;
use super::resource::{Kind, Node, Resource};
use super::rules::Rule;
use slateberg_model::principal::Identity;

/// A request that is complete except for the name of the resource.
pub struct PageQuestion<'a> {
    kind: Kind,
    path: Path,
    /// The warehouses in the scope of the credential, if the names are those of warehouses and the
    /// scope is limited.
    warehouses: Option<&'a BTreeSet<String>>,
    verdict: Verdict<'a>,
}

enum Verdict<'a> {
    /// The result is the same for every name.
    Settled(bool),
    /// The result depends on the name.
    NameDependent(Box<NameDependent<'a>>),
}

/// The part of a request that depends on the name.
struct NameDependent<'a> {
    asking: Asking<'a>,
    /// Whether a permit policy applies to every name.
    allowed: bool,
    /// Names that a policy without conditions permits.
    permitted: HashSet<SmolStr>,
    /// Names that a policy without conditions forbids.
    forbidden: HashSet<SmolStr>,
    /// Policies that apply to every name and have conditions on the resource.
    conditional: CedarSet,
    /// The attributes by which the policies in `conditional` distinguish names.
    distinctions: Distinctions,
    /// Names that the scope of a policy with conditions mentions. The value for a name consists of
    /// these policies and those in `conditional`.
    about: HashMap<SmolStr, CedarSet>,
    needs_attributes: bool,
}

/// Principal, action and context.
struct Asking<'a> {
    policies: &'a PolicySet,
    principal: Entity,
    action: EntityUid,
    context: cedar_policy::Context,
}

/// The names of a page that a policy's scope covers.
enum ScopeCoverage {
    Nothing,
    Everything,
    Only(SmolStr),
}

/// Result of the policies that do not depend on the name.
enum CommonResult {
    Forbidden,
    Allowed,
    Silent,
}

impl<'a> PageQuestion<'a> {
    /// Starts the evaluation of `action` on names of a kind directly in `container`.
    pub fn new(
        policies: &'a PolicySet,
        action: &str,
        identity: &'a Identity,
        container: &Resource,
        kind: Kind,
        context: &Context,
    ) -> Self {
        let schema = &policies.schema;
        let Some(path) = schema.path(container) else {
            let (path, verdict) = (schema.root(), Verdict::Settled(false));
            return Self { kind, path, warehouses: None, verdict };
        };
        let verdict = match schema.action_on(action, kind) {
            // The scope of a credential is a set of warehouses. For a page of warehouses, `answer`
            // therefore checks each name against the scope.
            Some(action) if kind == Kind::Warehouse || in_scope(identity, container) => {
                let asking = Asking {
                    policies,
                    principal: schema.principal_entity(identity),
                    action: action.clone(),
                    context: context.cedar(identity.method, schema),
                };
                asking.verdict(identity, &path, kind)
            }
            _ => Verdict::Settled(false),
        };
        let warehouses = identity.warehouses.as_ref().filter(|_| kind == Kind::Warehouse);
        Self { kind, path, warehouses, verdict }
    }

    /// Returns the result if it is the same for every name.
    pub fn constant_result(&self) -> Option<bool> {
        match &self.verdict {
            Verdict::Settled(allow) if self.warehouses.is_none() => Some(*allow),
            _ => None,
        }
    }

    /// Whether the result depends on attributes or properties. If so, the nodes must contain them.
    pub fn needs_attributes(&self) -> bool {
        matches!(&self.verdict, Verdict::NameDependent(open) if open.needs_attributes)
    }

    /// Returns the results for names, in their order.
    pub fn answer(&self, nodes: &[Node]) -> Vec<bool> {
        let mut answers = match &self.verdict {
            Verdict::Settled(allow) => vec![*allow; nodes.len()],
            Verdict::NameDependent(open) => open.answer(&self.path, self.kind, nodes),
        };
        if let Some(warehouses) = self.warehouses {
            for (answer, node) in answers.iter_mut().zip(nodes) {
                *answer &= warehouses.contains(node.name.as_str());
            }
        }
        answers
    }
}

impl<'a> Asking<'a> {
    /// Evaluates the policies whose result is the same for every name, and collects the policies
    /// whose result depends on the name.
    fn verdict(self, identity: &Identity, path: &Path, kind: Kind) -> Verdict<'a> {
        let schema = &self.policies.schema;
        let leaf_type = schema.types.of(kind);
        let principal = self.principal.uid();
        let memberships = schema.memberships(identity);
        let no_groups = HashSet::new();
        let groups = schema.groups_of(self.action.id().unescaped()).unwrap_or(&no_groups);
        let above: HashSet<_> = path.entities.iter().map(Entity::uid).collect();
        let mut same = Vec::new();
        let mut varying = Vec::new();
        for rule in &self.policies.rules {
            if !rule.covers_action(&self.action, groups)
                || !rule.covers_principal(&principal, &memberships)
            {
                continue;
            }
            match rule.covers(leaf_type, path, &above) {
                ScopeCoverage::Nothing => {}
                ScopeCoverage::Everything if !rule.asks.resource => same.push(rule),
                ScopeCoverage::Everything => varying.push((rule, None)),
                ScopeCoverage::Only(name) => varying.push((rule, Some(name))),
            }
        }
        let allowed = match self.same(&same, path, kind) {
            CommonResult::Forbidden => return Verdict::Settled(false),
            CommonResult::Allowed => true,
            CommonResult::Silent => false,
        };
        let other = if allowed { Effect::Forbid } else { Effect::Permit };
        if varying.iter().all(|(rule, _)| rule.effect != other) {
            return Verdict::Settled(allowed);
        }
        Verdict::NameDependent(Box::new(NameDependent::of(self, allowed, varying)))
    }

    /// Evaluates the policies that do not depend on the name, with a placeholder for the name.
    fn same(&self, rules: &[&Rule], path: &Path, kind: Kind) -> CommonResult {
        let unconditional = |effect| {
            rules
                .iter()
                .any(|rule| rule.effect == effect && !rule.policy.has_non_scope_constraint())
        };
        let conditional = rules.iter().any(|rule| rule.policy.has_non_scope_constraint());
        if unconditional(Effect::Forbid) {
            return CommonResult::Forbidden;
        }
        if !conditional {
            return if unconditional(Effect::Permit) {
                CommonResult::Allowed
            } else {
                CommonResult::Silent
            };
        }
        let policies = cedar_set(rules.iter().copied());
        let any = Node::named("any");
        match self.evaluate_one(&policies, path, kind, &any) {
            NameResult::Permitted => CommonResult::Allowed,
            NameResult::Silent => CommonResult::Silent,
            NameResult::Forbidden => CommonResult::Forbidden,
        }
    }

    /// Evaluates policies for one name.
    fn evaluate_one(
        &self,
        policies: &CedarSet,
        path: &Path,
        kind: Kind,
        node: &Node,
    ) -> NameResult {
        self.ask(policies, path, kind, &[node]).first().copied().unwrap_or(NameResult::Forbidden)
    }

    /// Evaluates policies for each name. A name that cannot be evaluated is forbidden.
    fn ask(
        &self,
        policies: &CedarSet,
        path: &Path,
        kind: Kind,
        nodes: &[&Node],
    ) -> Vec<NameResult> {
        let schema = &self.policies.schema;
        let leaves: Vec<_> = nodes.iter().map(|node| schema.below(path, kind, node)).collect();
        let names: Vec<_> = leaves.iter().map(Entity::uid).collect();
        let all = path.entities.iter().cloned().chain([self.principal.clone()]).chain(leaves);
        let Some(entities) = self.policies.entities(all.collect(), &self.action) else {
            return vec![NameResult::Forbidden; nodes.len()];
        };
        let answer = |name: EntityUid| {
            let (principal, action) = (self.principal.uid(), self.action.clone());
            let request = Request::new(principal, action, name, self.context.clone(), None);
            let Ok(request) = request else { return NameResult::Forbidden };
            let response = self.policies.authorizer.is_authorized(&request, policies, &entities);
            match self.policies.judge(&response) {
                (true, _) => NameResult::Permitted,
                (false, reasons) if reasons.is_empty() => NameResult::Silent,
                (false, _) => NameResult::Forbidden,
            }
        };
        names.into_iter().map(answer).collect()
    }
}

/// Result of policies for one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameResult {
    Permitted,
    Forbidden,
    Silent,
}

impl<'a> NameDependent<'a> {
    fn of(asking: Asking<'a>, allowed: bool, varying: Vec<(&Rule, Option<SmolStr>)>) -> Self {
        let mut open = Self {
            asking,
            allowed,
            permitted: HashSet::new(),
            forbidden: HashSet::new(),
            conditional: CedarSet::new(),
            distinctions: Distinctions::default(),
            about: HashMap::new(),
            needs_attributes: false,
        };
        let mut conditional: Vec<&Rule> = Vec::new();
        let mut about: HashMap<SmolStr, Vec<&Rule>> = HashMap::new();
        for (rule, only) in varying {
            open.needs_attributes |= rule.asks.attributes;
            match only {
                Some(name) if rule.policy.has_non_scope_constraint() => {
                    about.entry(name).or_default().push(rule);
                }
                Some(name) if rule.effect == Effect::Permit => {
                    open.permitted.insert(name);
                }
                Some(name) => {
                    open.forbidden.insert(name);
                }
                None => {
                    open.distinctions.extend(&rule.distinctions);
                    conditional.push(rule);
                }
            }
        }
        for (name, rules) in about {
            let rules = rules.into_iter().chain(conditional.iter().copied());
            open.about.insert(name, cedar_set(rules));
        }
        open.conditional = cedar_set(conditional.into_iter());
        open
    }

    fn answer(&self, path: &Path, kind: Kind, nodes: &[Node]) -> Vec<bool> {
        let answer = |(node, result): (&Node, NameResult)| {
            let name = &node.name;
            if self.forbidden.contains(name) {
                return false;
            }
            let result = match self.about.get(name) {
                Some(policies) => self.asking.evaluate_one(policies, path, kind, node),
                None => result,
            };
            match result {
                NameResult::Permitted => true,
                NameResult::Forbidden => false,
                NameResult::Silent => self.allowed || self.permitted.contains(name),
            }
        };
        nodes.iter().zip(self.results_of_all(path, kind, nodes)).map(answer).collect()
    }

    /// Evaluates the policies with conditions for every name.
    fn results_of_all(&self, path: &Path, kind: Kind, nodes: &[Node]) -> Vec<NameResult> {
        if self.conditional.is_empty() {
            return vec![NameResult::Silent; nodes.len()];
        }
        let mut different: HashMap<DistinctValues<'_>, usize> = HashMap::new();
        let mut open_nodes = Vec::new();
        let mut spoken_for = Vec::with_capacity(nodes.len());
        for node in nodes {
            let next = open_nodes.len();
            let by = *different.entry(self.distinctions.facts(node)).or_insert(next);
            if by == next {
                open_nodes.push(node);
            }
            spoken_for.push(by);
        }
        let result = self.asking.ask(&self.conditional, path, kind, &open_nodes);
        let result_by = |by: usize| result.get(by).copied().unwrap_or(NameResult::Forbidden);
        spoken_for.into_iter().map(result_by).collect()
    }
}

impl Rule {
    /// Returns the names directly below `path` for which the scope covers an object of type `leaf`.
    /// `above` contains the ids of the entities in `path`.
    fn covers(
        &self,
        leaf: &EntityTypeName,
        path: &Path,
        above: &HashSet<EntityUid>,
    ) -> ScopeCoverage {
        let only = |one: &EntityUid| {
            if one.type_name() == leaf {
                path.name_below(one).map_or(ScopeCoverage::Nothing, ScopeCoverage::Only)
            } else {
                ScopeCoverage::Nothing
            }
        };
        let within = |one: &EntityUid| {
            if above.contains(one) { ScopeCoverage::Everything } else { only(one) }
        };
        match &self.resource {
            ResourceConstraint::Any => ScopeCoverage::Everything,
            ResourceConstraint::Is(name) if name == leaf => ScopeCoverage::Everything,
            ResourceConstraint::Eq(one) => only(one),
            ResourceConstraint::In(one) => within(one),
            ResourceConstraint::IsIn(name, one) if name == leaf => within(one),
            _ => ScopeCoverage::Nothing,
        }
    }
}

/// Builds a set of these policies. They are from one set, so their ids are unique.
fn cedar_set<'r>(rules: impl Iterator<Item = &'r Rule>) -> CedarSet {
    CedarSet::from_policies(rules.map(|rule| rule.policy.clone())).expect("their names differ")
}
