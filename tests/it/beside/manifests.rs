//! The manifests for Kubernetes and Compose: judged by their schemas, and true to what the program takes and does.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::{
    deployed,
    image::Containerfile,
    read,
    unit::{seconds, stops_within},
};
use crate::support::{
    http,
    place::{Kind, Place},
    postgres::Postgres,
    process::{Exit, Instance},
    programs::Judge,
    stage::{PATIENCE, Stage, until_ready},
};

/// Prints the documents of a YAML file as JSON.
const YAML: &str = "import sys, json, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";

/// Refuses what Compose's specification does not have.
const COMPOSE: &str = "import sys, json, yaml; from compose_spec import PyCompose
PyCompose.from_json(json.dumps(yaml.safe_load(sys.stdin)))";

/// S five times over: workers stop within it, then each release has three tries.
const MARGIN: u32 = 5;

/// A first migration of a large index, before the admin address answers.
const MIGRATION: Duration = Duration::from_secs(600);

#[test]
fn kubernetes_takes_every_document_and_knows_every_key() {
    let file = deployed("kubernetes.yaml");
    let Some(verdict) = Judge::KubernetesValidate.ask(&["--strict", file.to_str().unwrap()], "") else {
        return;
    };
    assert!(verdict.passed && !verdict.said.contains("WARN"), "{}", verdict.said);
    assert_eq!(
        verdict.said.matches("passed for resource").count(),
        read("kubernetes.yaml").split("\n---\n").count()
    );
}

#[test]
fn compose_takes_the_file_and_knows_every_key() {
    let text = read("compose.yaml");
    let Some(verdict) = Judge::ComposeSpec.ask(&["-c", COMPOSE], &text) else { return };
    assert!(verdict.passed, "{}", verdict.said);
    let wrong = text.replace("stop_grace_period", "stop_grace_perid");
    let Some(verdict) = Judge::ComposeSpec.ask(&["-c", COMPOSE], &wrong) else { return };
    assert!(!verdict.passed && verdict.said.contains("stop_grace_perid"), "{}", verdict.said);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_asks_and_gives_what_the_program_answers_and_takes() {
    let Some(documents) = documents("kubernetes.yaml") else { return };
    let of = |kind: &str| documents.iter().find(|document| document["kind"] == kind).unwrap();
    let pod = &of("Deployment")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let mut environment = Containerfile::read().environment();
    let listed = |variable: &Value| {
        let value = variable["value"].as_str().unwrap_or("from-a-field").to_owned();
        (variable["name"].as_str().unwrap().to_owned(), value)
    };
    environment.extend(container["env"].as_array().unwrap().iter().map(listed));
    environment.extend(pairs(&of("Secret")["stringData"]));
    let settings = takes(&environment);
    let port = settings["admin.listen"].rsplit(':').next().unwrap();
    assert_eq!(container["ports"][0]["containerPort"].to_string(), port);
    let annotations = &of("Deployment")["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["prometheus.io/port"], port);

    let stage = Stage::new(Kind::Sqlite).await;
    let instance = stage.start("asked");
    until_ready(&instance);
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let get = &container[probe]["httpGet"];
        assert_eq!(get["port"], container["ports"][0]["name"], "{probe}");
        let url = format!("http://{}{}", instance.admin_address(), get["path"].as_str().unwrap());
        assert_eq!(http::get(&url).unwrap().status, 200, "{probe}");
    }
    let number = |value: &Value| u32::try_from(value.as_u64().unwrap()).unwrap();
    let starts_within = &container["startupProbe"];
    let starts_within = number(&starts_within["periodSeconds"]) * number(&starts_within["failureThreshold"]);
    assert!(Duration::from_secs(starts_within.into()) >= MIGRATION);
    let grace = Duration::from_secs(number(&pod["terminationGracePeriodSeconds"]).into());
    assert!(grace >= stops_within(&stage) * MARGIN, "{grace:?}");
    let user = Containerfile::read().user();
    assert_eq!(
        (number(&pod["securityContext"]["runAsUser"]), number(&pod["securityContext"]["runAsGroup"])),
        user
    );
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
}

/// The two instances of the file, on a server with the user, the password and the database of the file.
#[tokio::test(flavor = "multi_thread")]
async fn compose_runs_two_instances_of_which_one_takes_over_from_the_other() {
    let Some(documents) = documents("compose.yaml") else { return };
    let services = &documents[0]["services"];
    let of_database = pairs(&services["database"]["environment"]);
    let get = |name: &str| &of_database.iter().find(|(key, _)| key == name).unwrap().1;
    let (user, password, name) = (get("POSTGRES_USER"), get("POSTGRES_PASSWORD"), get("POSTGRES_DB"));
    let server = Postgres::private();
    // Less than what the file's image gives, which is a superuser.
    server.execute(&format!("CREATE ROLE {user} LOGIN PASSWORD '{password}'")).await;
    server.execute(&format!("CREATE DATABASE {name} OWNER {user}")).await;
    let there = server.url(name);
    let there = there.rsplit_once('@').unwrap().1.rsplit_once('/').unwrap().0.to_owned();

    let mut stage = Stage::bare(Place::on(&server).await).await;
    let mut instances = Vec::new();
    for label in ["one", "two"] {
        let service = &services[label];
        assert_eq!(service["depends_on"]["database"]["condition"], "service_healthy");
        let grace = seconds(service["stop_grace_period"].as_str().unwrap());
        assert!(grace >= stops_within(&stage) * MARGIN, "{grace:?}");
        let mut environment = Containerfile::read().environment();
        environment.extend(pairs(&service["environment"]));
        let settings = takes(&environment);
        let port = settings["admin.listen"].rsplit(':').next().unwrap().to_owned();
        let published = service["ports"][0].as_str().unwrap();
        assert!(
            published.starts_with("127.0.0.1:") && published.ends_with(&format!(":{port}")),
            "{published}"
        );
        let url = settings["database.url"].replace("***", password);
        assert_eq!(url, format!("postgres://{user}:{password}@database/{name}"));
        stage = stage.with("ATCR__DATABASE__URL", &url.replace("@database/", &format!("@{there}/")));
        instances.push(stage.start(&settings["instance.label"]));
    }
    instances.iter().for_each(until_ready);
    let worker = stage.worker(&instances.iter().collect::<Vec<_>>());
    let said = instances[worker].lines().join("\n");
    assert!(!said.contains("\"level\":\"WARN\",\"message\":\"the server"), "{said}");
    instances[worker].signal(Signal::KILL);
    stage.worker(&[&instances[1 - worker]]);
}

/// The documents of a file. None: left out.
fn documents(name: &str) -> Option<Vec<Value>> {
    let verdict = Judge::ComposeSpec.ask(&["-c", YAML], &read(name))?;
    assert!(verdict.passed, "{}", verdict.said);
    Some(serde_json::from_str(&verdict.said).unwrap())
}

fn pairs(object: &Value) -> Vec<(String, String)> {
    let pair = |(name, value): (&String, &Value)| (name.clone(), value.as_str().unwrap().to_owned());
    object.as_object().unwrap().iter().map(pair).collect()
}

/// What the program makes of this environment, by key.
fn takes(environment: &[(String, String)]) -> std::collections::BTreeMap<String, String> {
    let environment: Vec<_> = environment.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let mut command = Instance::spawn(&["settings", "--json"], &environment);
    let exit = command.wait_exit(PATIENCE);
    let text = command.lines().join("\n");
    assert_eq!(exit, Exit::Code(0), "{text}");
    let listed: Vec<Value> = serde_json::from_str(&text).unwrap();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    listed.iter().map(|one| (text(&one["key"]), text(&one["value"]))).collect()
}
