//! `slateberg store accept-loss`: allows a server to start although the end of its local
//! write-ahead log (the journal) was lost.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::arguments::Common;
use super::exit::{Exit, Failure, Outcome};
use super::output::print;
use super::output::{GLOBAL, OUTPUT_HELP, Output, print_json};
use slateberg_runtime::dependencies::Dependencies;
use slateberg_runtime::loss::{Loss, accept_loss};
use slateberg_store::loss::AcceptedLoss;

#[derive(Debug, Args)]
pub(super) struct AcceptLoss {
    /// Accept the loss. Without this option, only print the loss
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    common: Common,
    #[arg(long, value_enum, default_value = "table", help = OUTPUT_HELP, help_heading = GLOBAL)]
    output: Output,
}

impl AcceptLoss {
    /// Prints the loss. Accepts it if the operator has passed `--yes`.
    pub(super) fn run(self) -> Outcome {
        self.common.run_offline(async |settings| {
            match accept_loss(settings, &Dependencies::default(), self.yes).await? {
                Loss::Nothing => self.print(None),
                Loss::Accepted(accepted) => self.print(Some(accepted)),
                Loss::Unconfirmed(damage) => {
                    let why = format!("{damage}. Nothing was changed; --yes accepts the loss");
                    return Err(Failure::new(Exit::Damaged, why));
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    fn print(&self, accepted: Option<AcceptedLoss>) {
        let text = match (self.output, accepted) {
            (Output::Json, accepted) => {
                return print_json(&json!({
                    "accepted": accepted.is_some(),
                    "acknowledged-frame": accepted.and_then(|it| it.acknowledged),
                    "left-frame": accepted.map(|it| it.left),
                }));
            }
            (Output::Table, None) => "Nothing is lost, and nothing was changed.".to_owned(),
            (Output::Table, Some(AcceptedLoss { acknowledged: Some(frame), left })) => {
                format!("Accepted the loss of frames {} to {frame} of the journal.", left + 1)
            }
            (Output::Table, Some(AcceptedLoss { acknowledged: None, left })) => {
                format!("Accepted frame {left} as the end of the journal.")
            }
        };
        print(&format!("{text}\n"));
    }
}
