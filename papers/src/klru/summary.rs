//! K16: what all of it comes to.

use crate::document;
use crate::experiment::{Context, Experiment, Failure};
use crate::outcome::{Outcome, answer, table};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "klru-summary",
    claims: &["K16"],
    about: "What was found for writes, for state and for tuning, from the experiments above",
    run,
};

/// Claims that it draws on, with the experiments that answer them.
const PARTS: [(&str, &str); 6] = [
    ("K14", "klru-server"),
    ("K12", "klru-small"),
    ("K7", "klru-server"),
    ("K10", "klru-sampling"),
    ("K11", "klru-metadata"),
    ("K1", "klru-curves"),
];

fn run(context: &Context) -> Result<Outcome, Failure> {
    let mut rows = Vec::new();
    for (claim, experiment) in PARTS {
        let path = context.docs.join("papers").join(format!("{experiment}.json"));
        let found = document::read(&path)?
            .and_then(|filed| filed.outcome.answers.into_iter().find(|answer| answer.claim == claim));
        let summary = found.map_or_else(|| "not measured".to_owned(), |answer| answer.ours);
        rows.push(vec![claim.to_owned(), summary]);
    }
    let ours =
        rows.iter().take(2).map(|row| format!("{}: {}", row[0], row[1])).collect::<Vec<_>>().join("; ");
    Ok(Outcome {
        how: "Nothing is measured here: the answers are those of the experiments that were run before."
            .to_owned(),
        answers: vec![answer(
            "K16",
            ours,
            "KLRU changes no list on a write, and draws when a store evicts. Its state is a word of metadata and a bit. The policy is changed while the server runs, with its options, by the command `policy`, as the paper asks.",
        )],
        tables: vec![table("What it is drawn from:", &["claim", "found"], rows)],
        charts: Vec::new(),
    })
}
