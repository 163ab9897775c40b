//! One question for all names of a page: who asks, for what, and what the names are in is worked out once.
//!
//! Most policies can be left out for the whole page, because their scope does not match whoever asks, the
//! action or the place; most others say the same of every name. What is left differs from name to name:
//! policies that are about one name, which others are not asked about, and policies with conditions on the
//! resource. Names that these cannot tell apart are asked about once (`distinctions`).
//!
//! The answer is the one that [`PolicySet::decide`] gives name by name; a property test holds it to that.

use std::collections::{BTreeSet, HashMap, HashSet};

use cedar_policy::{
    Effect, Entity, EntityTypeName, EntityUid, PolicySet as CedarSet, Request, ResourceConstraint,
};
use smol_str::SmolStr;

use super::context::Context;
use super::decide::in_scope;
use super::distinctions::{Distinctions, Facts};
use super::entities::Path;
use super::policy_set::PolicySet;
use super::resource::{Kind, Node, Resource};
use super::rules::Rule;
use slateberg_model::principal::Identity;

/// A question of which only the name is left open.
pub struct PageQuestion<'a> {
    kind: Kind,
    path: Path,
    /// The warehouses that the credential is good for, where the names are those of warehouses.
    warehouses: Option<&'a BTreeSet<String>>,
    verdict: Verdict<'a>,
}

enum Verdict<'a> {
    /// The same for every name.
    Settled(bool),
    /// Depends on the name.
    Open(Box<Open<'a>>),
}

/// What differs from name to name.
struct Open<'a> {
    asking: Asking<'a>,
    /// Whether a permit covers every name.
    allowed: bool,
    /// Names that a policy without conditions permits.
    permitted: HashSet<SmolStr>,
    /// Names that a policy without conditions forbids.
    forbidden: HashSet<SmolStr>,
    /// Policies with conditions on the resource, whatever its name.
    conditional: CedarSet,
    /// What they tell names apart by.
    distinctions: Distinctions,
    /// For names that policies with conditions are about: these, and those that are about all names.
    about: HashMap<SmolStr, CedarSet>,
    needs_attributes: bool,
}

/// Who asks, for what, and under which circumstances.
struct Asking<'a> {
    policies: &'a PolicySet,
    principal: Entity,
    action: EntityUid,
    context: cedar_policy::Context,
}

/// How a policy's scope relates to the names of a page.
enum Cover {
    Nothing,
    Everything,
    Only(SmolStr),
}

/// What the policies say that say the same of every name.
enum Same {
    Forbidden,
    Allowed,
    Silent,
}

impl<'a> PageQuestion<'a> {
    /// Asks which names of a kind directly in `container` may have `action` done to them.
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
            // Warehouses are what a credential is scoped to: they are told apart by their names.
            Some(action) if kind == Kind::Warehouse || in_scope(identity, container) => {
                let asking = Asking {
                    policies,
                    principal: schema.principal_entity(identity),
                    action: action.clone(),
                    context: context.cedar(identity.method),
                };
                asking.verdict(identity, &path, kind)
            }
            _ => Verdict::Settled(false),
        };
        let warehouses = identity.warehouses.as_ref().filter(|_| kind == Kind::Warehouse);
        Self { kind, path, warehouses, verdict }
    }

    /// The answer, if it is the same for every name.
    pub fn settled(&self) -> Option<bool> {
        match &self.verdict {
            Verdict::Settled(allow) if self.warehouses.is_none() => Some(*allow),
            _ => None,
        }
    }

    /// Whether the answer depends on more than names: on attributes or properties, which then have to be in
    /// the nodes.
    pub fn needs_attributes(&self) -> bool {
        matches!(&self.verdict, Verdict::Open(open) if open.needs_attributes)
    }

    /// Answers for names, in their order.
    pub fn answer(&self, nodes: &[Node]) -> Vec<bool> {
        let mut answers = match &self.verdict {
            Verdict::Settled(allow) => vec![*allow; nodes.len()],
            Verdict::Open(open) => open.answer(&self.path, self.kind, nodes),
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
    /// Sorts the policies by what they have to do with the page, and asks those that say the same of every
    /// name.
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
                Cover::Nothing => {}
                Cover::Everything if !rule.asks.resource => same.push(rule),
                Cover::Everything => varying.push((rule, None)),
                Cover::Only(name) => varying.push((rule, Some(name))),
            }
        }
        let allowed = match self.same(&same, path, kind) {
            Same::Forbidden => return Verdict::Settled(false),
            Same::Allowed => true,
            Same::Silent => false,
        };
        let other = if allowed { Effect::Forbid } else { Effect::Permit };
        if varying.iter().all(|(rule, _)| rule.effect != other) {
            return Verdict::Settled(allowed);
        }
        Verdict::Open(Box::new(Open::of(self, allowed, varying)))
    }

    /// Asks the policies that say the same of every name, for a name that stands for all.
    fn same(&self, rules: &[&Rule], path: &Path, kind: Kind) -> Same {
        let unconditional = |effect| {
            rules
                .iter()
                .any(|rule| rule.effect == effect && !rule.policy.has_non_scope_constraint())
        };
        let conditional = rules.iter().any(|rule| rule.policy.has_non_scope_constraint());
        if unconditional(Effect::Forbid) {
            return Same::Forbidden;
        }
        if !conditional {
            return if unconditional(Effect::Permit) { Same::Allowed } else { Same::Silent };
        }
        let policies = cedar_set(rules.iter().copied());
        let any = Node::named("any");
        match self.ask_one(&policies, path, kind, &any) {
            Answer::Permitted => Same::Allowed,
            Answer::Silent => Same::Silent,
            Answer::Forbidden => Same::Forbidden,
        }
    }

    /// Asks Cedar about one name.
    fn ask_one(&self, policies: &CedarSet, path: &Path, kind: Kind, node: &Node) -> Answer {
        self.ask(policies, path, kind, &[node]).first().copied().unwrap_or(Answer::Forbidden)
    }

    /// Asks Cedar, name by name. What cannot be asked is forbidden.
    fn ask(&self, policies: &CedarSet, path: &Path, kind: Kind, nodes: &[&Node]) -> Vec<Answer> {
        let schema = &self.policies.schema;
        let leaves: Vec<_> = nodes.iter().map(|node| schema.below(path, kind, node)).collect();
        let names: Vec<_> = leaves.iter().map(Entity::uid).collect();
        let all = path.entities.iter().cloned().chain([self.principal.clone()]).chain(leaves);
        let Some(entities) = self.policies.entities(all.collect(), &self.action) else {
            return vec![Answer::Forbidden; nodes.len()];
        };
        let answer = |name: EntityUid| {
            let (principal, action) = (self.principal.uid(), self.action.clone());
            let request = Request::new(principal, action, name, self.context.clone(), None);
            let Ok(request) = request else { return Answer::Forbidden };
            let response = self.policies.authorizer.is_authorized(&request, policies, &entities);
            match self.policies.judge(&response) {
                (true, _) => Answer::Permitted,
                (false, reasons) if reasons.is_empty() => Answer::Silent,
                (false, _) => Answer::Forbidden,
            }
        };
        names.into_iter().map(answer).collect()
    }
}

/// What policies say of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Permitted,
    Forbidden,
    Silent,
}

impl<'a> Open<'a> {
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
        let answer = |(node, said): (&Node, Answer)| {
            let name = &node.name;
            if self.forbidden.contains(name) {
                return false;
            }
            let said = match self.about.get(name) {
                Some(policies) => self.asking.ask_one(policies, path, kind, node),
                None => said,
            };
            match said {
                Answer::Permitted => true,
                Answer::Forbidden => false,
                Answer::Silent => self.allowed || self.permitted.contains(name),
            }
        };
        nodes.iter().zip(self.said_of_all(path, kind, nodes)).map(answer).collect()
    }

    /// What the policies with conditions that are about all names say of each.
    fn said_of_all(&self, path: &Path, kind: Kind, nodes: &[Node]) -> Vec<Answer> {
        if self.conditional.is_empty() {
            return vec![Answer::Silent; nodes.len()];
        }
        let mut different: HashMap<Facts<'_>, usize> = HashMap::new();
        let mut asked = Vec::new();
        let mut spoken_for = Vec::with_capacity(nodes.len());
        for node in nodes {
            let next = asked.len();
            let by = *different.entry(self.distinctions.facts(node)).or_insert(next);
            if by == next {
                asked.push(node);
            }
            spoken_for.push(by);
        }
        let said = self.asking.ask(&self.conditional, path, kind, &asked);
        let said_by = |by: usize| said.get(by).copied().unwrap_or(Answer::Forbidden);
        spoken_for.into_iter().map(said_by).collect()
    }
}

impl Rule {
    /// How the scope relates to leaves of a type below a path, and `above` them all that is on it.
    fn covers(&self, leaf: &EntityTypeName, path: &Path, above: &HashSet<EntityUid>) -> Cover {
        let only = |one: &EntityUid| {
            if one.type_name() == leaf {
                path.name_below(one).map_or(Cover::Nothing, Cover::Only)
            } else {
                Cover::Nothing
            }
        };
        let within =
            |one: &EntityUid| if above.contains(one) { Cover::Everything } else { only(one) };
        match &self.resource {
            ResourceConstraint::Any => Cover::Everything,
            ResourceConstraint::Is(name) if name == leaf => Cover::Everything,
            ResourceConstraint::Eq(one) => only(one),
            ResourceConstraint::In(one) => within(one),
            ResourceConstraint::IsIn(name, one) if name == leaf => within(one),
            _ => Cover::Nothing,
        }
    }
}

/// Policies as a set of their own. They were all together in one before, so that no two have one name.
fn cedar_set<'r>(rules: impl Iterator<Item = &'r Rule>) -> CedarSet {
    CedarSet::from_policies(rules.map(|rule| rule.policy.clone())).expect("their names differ")
}
