//! Checks the responses to clients of few tables. The snapshots of the final tables show the order
//! of the commits.

/// Number of tables in a run.
pub const TABLES: usize = 3;

/// Ids of snapshots, in the order of their commits.
pub type Chain = Vec<i64>;

/// One request with its response.
#[derive(Debug, Clone)]
pub struct Step {
    pub started: u64,
    pub ended: u64,
    pub operation: Operation,
}

#[derive(Debug, Clone)]
pub enum Operation {
    /// A read of a table returned these snapshots.
    Read { table: usize, seen: Chain },
    /// A snapshot was appended to a table, which then had the snapshots `seen`. `required` is the
    /// snapshot that the commit required before its own, if it had such a requirement.
    Append { table: usize, id: i64, required: Option<Option<i64>>, seen: Chain },
    /// A commit was rejected because of the requirement that the table ends with this snapshot.
    Rejected { table: usize, id: i64, required: Option<i64> },
    /// A snapshot was appended to several tables atomically.
    Transact { tables: Vec<usize>, id: i64 },
}

impl Operation {
    /// Returns the commits of this step, by table.
    pub fn writes(&self) -> Vec<(usize, i64)> {
        match self {
            Self::Append { table, id, .. } => vec![(*table, *id)],
            Self::Transact { tables, id } => tables.iter().map(|table| (*table, *id)).collect(),
            Self::Read { .. } | Self::Rejected { .. } => Vec::new(),
        }
    }
}

/// The result of a run: all its steps, and the final snapshots of each table.
pub struct RunResult {
    pub steps: Vec<Step>,
    pub chains: Vec<Chain>,
}

impl RunResult {
    /// Returns a description of the first violation.
    pub fn check(&self) -> Result<(), String> {
        self.check_commits_occur_once()?;
        self.check_responses_are_prefixes()?;
        self.check_requirements_were_met()?;
        self.check_rejections_were_justified()?;
        self.check_serial_order()
    }

    fn check_commits_occur_once(&self) -> Result<(), String> {
        let mut expected: Vec<Vec<i64>> = vec![Vec::new(); TABLES];
        for (table, id) in self.steps.iter().flat_map(|step| step.operation.writes()) {
            expected[table].push(id);
        }
        for (table, (mut expected, chain)) in expected.into_iter().zip(&self.chains).enumerate() {
            let mut found = chain.clone();
            found.sort_unstable();
            expected.sort_unstable();
            if found != expected {
                return Err(format!("table {table} holds {found:?}, acknowledged: {expected:?}"));
            }
        }
        Ok(())
    }

    fn check_responses_are_prefixes(&self) -> Result<(), String> {
        for step in &self.steps {
            let (Operation::Read { table, seen } | Operation::Append { table, seen, .. }) =
                &step.operation
            else {
                continue;
            };
            if !self.chains[*table].starts_with(seen) {
                return Err(format!("{step:?} saw an impossible state: {:?}", self.chains[*table]));
            }
            let own = step.operation.writes();
            if own.iter().any(|(_, id)| !seen.contains(id)) {
                return Err(format!("the response to {step:?} lacks its own snapshot"));
            }
        }
        Ok(())
    }

    fn check_requirements_were_met(&self) -> Result<(), String> {
        for step in &self.steps {
            let Operation::Append { table, id, required: Some(required), .. } = &step.operation
            else {
                continue;
            };
            if self.before(*table, *id) != *required {
                return Err(format!(
                    "{step:?} does not follow the required snapshot: {:?}",
                    self.chains[*table]
                ));
            }
        }
        Ok(())
    }

    /// A rejection is wrong if its requirement was met during the whole request, from the call to
    /// the response.
    fn check_rejections_were_justified(&self) -> Result<(), String> {
        for step in &self.steps {
            let Operation::Rejected { table, id, required } = &step.operation else { continue };
            let chain = &self.chains[*table];
            if chain.contains(id) {
                return Err(format!("{step:?} was rejected, but its snapshot exists"));
            }
            let next = match required {
                None => chain.first(),
                Some(required) => {
                    let at = chain.iter().position(|it| it == required);
                    chain.get(at.ok_or(format!("{step:?} requires an unknown snapshot"))? + 1)
                }
            };
            let came_before =
                required.is_none_or(|id| self.step_of(*table, id).ended < step.started);
            let went_after = next.is_none_or(|id| self.step_of(*table, *id).started > step.ended);
            if came_before && went_after {
                return Err(format!("{step:?} was rejected although its requirement was met"));
            }
        }
        Ok(())
    }

    /// One step precedes another if one of these is true:
    /// - its response was before the call of the other;
    /// - it wrote to a table before the other;
    /// - it wrote a snapshot that the other read;
    /// - it did not read a snapshot that the other wrote.
    ///
    /// A serial order exists if this relation has no cycle.
    fn check_serial_order(&self) -> Result<(), String> {
        let positions: Vec<Vec<(usize, usize, bool)>> =
            self.steps.iter().map(|step| self.positions(step)).collect();
        let precedes = |a: usize, b: usize| {
            let (one, other) = (&self.steps[a], &self.steps[b]);
            one.ended < other.started
                || positions[a].iter().any(|(table, at, writes)| {
                    positions[b].iter().any(|(other_table, other_at, other_writes)| {
                        table == other_table
                            && match (writes, other_writes) {
                                (true, true) | (false, true) => at < other_at,
                                (true, false) => at <= other_at,
                                (false, false) => false,
                            }
                    })
                })
        };
        let mut left: Vec<usize> = (0..self.steps.len()).collect();
        while !left.is_empty() {
            let first = left.iter().position(|b| !left.iter().any(|a| a != b && precedes(*a, *b)));
            match first {
                Some(first) => left.swap_remove(first),
                None => {
                    let circle: Vec<_> = left.iter().map(|at| &self.steps[*at]).collect();
                    return Err(format!("no serial order among {circle:#?}"));
                }
            };
        }
        Ok(())
    }

    /// Returns, for each table of a step, a position in the table's chain, and whether the step
    /// wrote to the table. The position is that of the step's own commit or, if the step only read
    /// the table, of the last commit that it read.
    fn positions(&self, step: &Step) -> Vec<(usize, usize, bool)> {
        if let Operation::Read { table, seen } = &step.operation {
            return vec![(*table, seen.len(), false)];
        }
        let position = |(table, id): (usize, i64)| {
            let at = self.chains[table].iter().position(|it| *it == id);
            (table, at.expect("every commit is in the chain of its table") + 1, true)
        };
        step.operation.writes().into_iter().map(position).collect()
    }

    fn before(&self, table: usize, id: i64) -> Option<i64> {
        let at = self.chains[table].iter().position(|it| *it == id).expect("it is there");
        at.checked_sub(1).map(|before| self.chains[table][before])
    }

    fn step_of(&self, table: usize, id: i64) -> &Step {
        let is_it = |step: &&Step| step.operation.writes().contains(&(table, id));
        self.steps.iter().find(is_it).expect("every commit belongs to a step")
    }
}

/// The checker must reject violations.
#[test]
fn checker_finds_wrong_histories() {
    let step = |started, ended, operation| Step { started, ended, operation };
    let append =
        |id, seen: &[i64]| Operation::Append { table: 0, id, required: None, seen: seen.into() };
    let outcome = |steps: &[Step], chain: &[i64]| RunResult {
        steps: steps.to_vec(),
        chains: vec![chain.to_vec(), Vec::new(), Vec::new()],
    };
    let one = step(0, 5, append(1, &[1]));
    let two = step(1, 6, append(2, &[1, 2]));
    let good = [one.clone(), two.clone()];
    assert_eq!(outcome(&good, &[1, 2]).check(), Ok(()));
    assert!(outcome(&good, &[2]).check().is_err(), "a lost update");
    assert!(outcome(&good, &[1, 2, 2]).check().is_err(), "a commit that was applied twice");
    assert!(outcome(&good, &[2, 1]).check().is_err(), "a response with another order");
    let stale = step(7, 8, Operation::Read { table: 0, seen: vec![1] });
    assert!(outcome(&[one.clone(), two.clone(), stale], &[1, 2]).check().is_err(), "a stale read");
    let late = step(7, 8, append(2, &[2]));
    assert!(outcome(&[one.clone(), late], &[2, 1]).check().is_err(), "an order unlike the times");
    let rejection = step(7, 8, Operation::Rejected { table: 0, id: 3, required: Some(2) });
    assert!(outcome(&[one, two, rejection], &[1, 2]).check().is_err(), "a groundless rejection");
}
