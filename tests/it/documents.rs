//! What the documents and the help show is true: commands are run, queries too, answers have the shape that is shown, and
//! tables name what there is.

mod answers;
mod commands;
mod help;
mod metrics;
mod names;
mod next_steps;
mod schema;
mod shown;
mod world;
