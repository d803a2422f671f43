//! The answers for programs that the documents show have the shape of those that there are.

use serde_json::Value;

use crate::documents::{
    metrics,
    shown::{documents, spans},
    world::World,
};
use crate::support::{eventually::eventually_blocking, http, stage::PATIENCE};

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_that_is_shown_has_the_shape_of_the_real_one() {
    let world = World::new().await;
    let (did, url) = (&world.user.0, world.stage.net.webhooks().url());
    let webhook = format!(
        "INSERT INTO webhooks (id, user_did, url, triggers, created_at, updated_at) VALUES (1, '{did}', '{url}/hook', 8, 1, 1)"
    );
    world.stage.place.execute(&webhook).await;
    let mut compared = 0;
    for document in documents() {
        for block in document.blocks().into_iter().filter(|block| block.language == "json") {
            let asked = spans(&block.above).into_iter().find(|span| is_question(span));
            let asked = asked
                .unwrap_or_else(|| panic!("{}: nothing says whose answer this is: {block:?}", document.path));
            let shown: Value =
                serde_json::from_str(&block.text).unwrap_or_else(|error| panic!("{error}: {}", block.text));
            eventually_blocking(&asked, PATIENCE, || differs(&shown, &answer(&world, &asked), &asked));
            compared += 1;
        }
    }
    assert!(compared > 5, "only {compared} answers");
}

/// Of an instance, or of a command.
fn is_question(span: &str) -> bool {
    span.starts_with("/holds?") || span.starts_with("/readyz") || span.starts_with("atcr-workers ")
}

fn answer(world: &World, asked: &str) -> Value {
    let text = if asked.starts_with('/') {
        // The instance that runs something, where the answer is about that.
        let hold = world.stage.net.records("io.atcr.hold.captain").keys().next().unwrap().0.clone();
        let address = world.web[0].admin_address();
        http::get(&format!("http://{address}{}", asked.replace("=DID", &format!("={hold}")))).unwrap().body
    } else {
        world.shell(asked).unwrap()
    };
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{asked}: {error}: {text}"))
}

/// The same names at the same places, with values of the same kind. What is null may be anything; so may what would be in an
/// empty list.
fn differs(shown: &Value, real: &Value, at: &str) -> Result<(), String> {
    match (shown, real) {
        (Value::Null, _) | (_, Value::Null) => Ok(()),
        (Value::Object(shown), Value::Object(real)) => {
            let names = |object: &serde_json::Map<String, Value>| object.keys().cloned().collect::<Vec<_>>();
            let (mut ours, mut theirs) = (names(shown), names(real));
            ours.sort();
            theirs.sort();
            if ours != theirs {
                return Err(format!("{at} has {theirs:?}, and {ours:?} is shown"));
            }
            // A setting's value is a text, a number, a boolean or a list.
            let mut fixed = shown.iter().filter(|(name, _)| *name != "value");
            fixed.try_for_each(|(name, value)| differs(value, &real[name], &format!("{at}.{name}")))
        }
        (Value::Array(shown), Value::Array(real)) => match shown.first() {
            Some(first) => real.iter().try_for_each(|value| differs(first, value, &format!("{at}[]"))),
            None => Ok(()),
        },
        _ if std::mem::discriminant(shown) == std::mem::discriminant(real) => Ok(()),
        _ => Err(format!("{at} is {real}, and {shown} is shown")),
    }
}

#[test]
fn another_name_or_another_kind_is_another_shape() {
    let differ = |shown: &str, real: &str| {
        differs(&serde_json::from_str(shown).unwrap(), &serde_json::from_str(real).unwrap(), "it").is_err()
    };
    assert!(!differ(r#"[{"a": 1, "b": null}]"#, r#"[{"a": 2, "b": {"c": 3}}]"#));
    assert!(differ(r#"[{"a": 1}]"#, r#"[{"a": 2, "b": 3}]"#));
    assert!(differ(r#"{"a": {"b": 1}}"#, r#"{"a": {"b": "1"}}"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_of_instances_at_work_are_those_of_the_guide() {
    let world = World::new().await;
    for web in &world.web {
        let told = http::get(&format!("http://{}/metrics", web.admin_address())).unwrap();
        metrics::compare(&told.body);
    }
}
