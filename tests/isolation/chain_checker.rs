//! Checks the responses to clients of few tables, using the order of commits in the tables
//! themselves.

/// Number of tables in a run.
pub const TABLES: usize = 3;

/// Ids of snapshots, in the order of their commits.
pub type Chain = Vec<i64>;

/// One request with its response.
#[derive(Debug, Clone)]
pub struct Step {
    pub called: u64,
    pub answered: u64,
    pub what: What,
}

#[derive(Debug, Clone)]
pub enum What {
    /// A table had these snapshots.
    Read { table: usize, seen: Chain },
    /// A snapshot was appended to a table, which then had the snapshots `seen`; with a requirement,
    /// on top of that one.
    Append { table: usize, id: i64, required: Option<Option<i64>>, seen: Chain },
    /// A commit was rejected because of the requirement that the table ends with this snapshot.
    Refused { table: usize, id: i64, required: Option<i64> },
    /// A snapshot was appended to several tables atomically.
    Transact { tables: Vec<usize>, id: i64 },
}

impl What {
    /// Returns the commits of this step, by table.
    pub fn writes(&self) -> Vec<(usize, i64)> {
        match self {
            Self::Append { table, id, .. } => vec![(*table, *id)],
            Self::Transact { tables, id } => tables.iter().map(|table| (*table, *id)).collect(),
            Self::Read { .. } | Self::Refused { .. } => Vec::new(),
        }
    }
}

/// The result of a run: all its steps, and the final tables.
pub struct Outcome {
    pub steps: Vec<Step>,
    pub chains: Vec<Chain>,
}

impl Outcome {
    /// Returns a description of the first violation.
    pub fn check(&self) -> Result<(), String> {
        self.every_commit_is_there_once()?;
        self.every_answer_is_a_prefix()?;
        self.every_requirement_was_met()?;
        self.every_refusal_was_true()?;
        self.there_is_a_serial_order()
    }

    fn every_commit_is_there_once(&self) -> Result<(), String> {
        let mut expected: Vec<Vec<i64>> = vec![Vec::new(); TABLES];
        for (table, id) in self.steps.iter().flat_map(|step| step.what.writes()) {
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

    fn every_answer_is_a_prefix(&self) -> Result<(), String> {
        for step in &self.steps {
            let (What::Read { table, seen } | What::Append { table, seen, .. }) = &step.what else {
                continue;
            };
            if !self.chains[*table].starts_with(seen) {
                return Err(format!("{step:?} saw what never was: {:?}", self.chains[*table]));
            }
            let own = step.what.writes();
            if own.iter().any(|(_, id)| !seen.contains(id)) {
                return Err(format!("{step:?} was answered without itself"));
            }
        }
        Ok(())
    }

    fn every_requirement_was_met(&self) -> Result<(), String> {
        for step in &self.steps {
            let What::Append { table, id, required: Some(required), .. } = &step.what else {
                continue;
            };
            if self.before(*table, *id) != *required {
                return Err(format!(
                    "{step:?} is not where it has to be: {:?}",
                    self.chains[*table]
                ));
            }
        }
        Ok(())
    }

    /// A rejection is wrong if its requirement was true from before the call until after the
    /// response.
    fn every_refusal_was_true(&self) -> Result<(), String> {
        for step in &self.steps {
            let What::Refused { table, id, required } = &step.what else { continue };
            let chain = &self.chains[*table];
            if chain.contains(id) {
                return Err(format!("{step:?} was applied all the same"));
            }
            let next = match required {
                None => chain.first(),
                Some(required) => {
                    let at = chain.iter().position(|it| it == required);
                    chain.get(at.ok_or(format!("{step:?} requires what never was"))? + 1)
                }
            };
            let came_before =
                required.is_none_or(|id| self.step_of(*table, id).answered < step.called);
            let went_after = next.is_none_or(|id| self.step_of(*table, *id).called > step.answered);
            if came_before && went_after {
                return Err(format!("{step:?} was refused for nothing"));
            }
        }
        Ok(())
    }

    /// One step precedes another for one of these reasons: its response was before the call of the
    /// other; it wrote to a table before the other; it wrote a snapshot that the other read; it did
    /// not read a snapshot that the other wrote. A serial order exists if this relation has no
    /// cycle.
    fn there_is_a_serial_order(&self) -> Result<(), String> {
        let places: Vec<Vec<(usize, usize, bool)>> =
            self.steps.iter().map(|step| self.places(step)).collect();
        let precedes = |a: usize, b: usize| {
            let (one, other) = (&self.steps[a], &self.steps[b]);
            one.answered < other.called
                || places[a].iter().any(|(table, at, writes)| {
                    places[b].iter().any(|(other_table, other_at, other_writes)| {
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

    /// Returns the positions of a step in the tables' chains: the number of its own commit, or of
    /// the last one that it read; and whether it is its own.
    fn places(&self, step: &Step) -> Vec<(usize, usize, bool)> {
        if let What::Read { table, seen } = &step.what {
            return vec![(*table, seen.len(), false)];
        }
        let place = |(table, id): (usize, i64)| {
            let at = self.chains[table].iter().position(|it| *it == id);
            (table, at.expect("every commit is there") + 1, true)
        };
        step.what.writes().into_iter().map(place).collect()
    }

    fn before(&self, table: usize, id: i64) -> Option<i64> {
        let at = self.chains[table].iter().position(|it| *it == id).expect("it is there");
        at.checked_sub(1).map(|before| self.chains[table][before])
    }

    fn step_of(&self, table: usize, id: i64) -> &Step {
        let is_it = |step: &&Step| step.what.writes().contains(&(table, id));
        self.steps.iter().find(is_it).expect("every commit is somebody's")
    }
}

/// The checker must reject violations.
#[test]
fn what_is_wrong_is_found() {
    let step = |called, answered, what| Step { called, answered, what };
    let append =
        |id, seen: &[i64]| What::Append { table: 0, id, required: None, seen: seen.into() };
    let outcome = |steps: &[Step], chain: &[i64]| Outcome {
        steps: steps.to_vec(),
        chains: vec![chain.to_vec(), Vec::new(), Vec::new()],
    };
    let one = step(0, 5, append(1, &[1]));
    let two = step(1, 6, append(2, &[1, 2]));
    let good = [one.clone(), two.clone()];
    assert_eq!(outcome(&good, &[1, 2]).check(), Ok(()));
    assert!(outcome(&good, &[2]).check().is_err(), "a lost update");
    assert!(outcome(&good, &[1, 2, 2]).check().is_err(), "a commit that was done twice");
    assert!(outcome(&good, &[2, 1]).check().is_err(), "an answer that saw another order");
    let stale = step(7, 8, What::Read { table: 0, seen: vec![1] });
    assert!(outcome(&[one.clone(), two.clone(), stale], &[1, 2]).check().is_err(), "a stale read");
    let late = step(7, 8, append(2, &[2]));
    assert!(outcome(&[one.clone(), late], &[2, 1]).check().is_err(), "an order against time");
    let refused = step(7, 8, What::Refused { table: 0, id: 3, required: Some(2) });
    assert!(outcome(&[one, two, refused], &[1, 2]).check().is_err(), "a refusal for nothing");
}
