//! [`PartitionResidual`]: the part of a filter that remains in a partition.

use std::sync::Arc;

use slateberg_model::scan::{Conjuncts, FileResidual, FileStatistics, ScanFilter};

/// The part of a filter that remains in a partition. A clone is cheap.
#[derive(Clone)]
pub(super) struct PartitionResidual {
    filter: Arc<FileResidual>,
    /// The JSON of the conjuncts that files of this partition need. There are few of them: most
    /// files match all conjuncts, or all but one.
    rendered: Vec<(Conjuncts, Arc<str>)>,
}

/// The part of a filter that clients have to evaluate on the rows of a file.
pub(super) struct Residual {
    pub(super) json: Arc<str>,
    /// Whether all rows of the file match the filter.
    pub(super) is_true: bool,
}

impl PartitionResidual {
    pub(super) fn new(filter: ScanFilter) -> Self {
        Self { filter: Arc::new(FileResidual::new(filter)), rendered: Vec::new() }
    }

    /// Returns the residual of a file. `None` if no row of the file matches.
    pub(super) fn of_file(&mut self, file: &impl FileStatistics) -> Option<Residual> {
        let unproven = self.filter.unproven(file)?;
        if let Some(narrowed) = self.filter.narrowed(unproven, file) {
            let json = narrowed.to_json().to_string().into();
            return Some(Residual { json, is_true: false });
        }
        let known = self.rendered.iter().find(|(conjuncts, _)| *conjuncts == unproven);
        let json = match known {
            Some((_, json)) => Arc::clone(json),
            None => {
                let json: Arc<str> = self.filter.filter(unproven).to_json().to_string().into();
                self.rendered.push((unproven, Arc::clone(&json)));
                json
            }
        };
        Some(Residual { json, is_true: unproven.is_empty() })
    }
}
