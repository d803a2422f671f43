//! `manifests` with `layers`, `manifest_references` and `manifest_annotations`, which go when it goes.

use diesel::QueryResult;
use diesel::sql_types::Text;

use super::{Key, chunked};
use crate::atproto::records::Manifest;
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// Deletes, and returns the repositories (owner, name) that lost one.
pub(in crate::store) async fn delete(
    session: &mut Session,
    keys: &[Key<'_>],
) -> QueryResult<Vec<(String, String)>> {
    let mut repositories = Vec::new();
    for chunk in chunked(keys, |(did, rkey)| row![*did, *rkey]) {
        let delete = Statement::new(
            "WITH gone (did, rkey) AS ({rows})
             DELETE FROM manifests WHERE (did, rkey) IN (SELECT did, rkey FROM gone) RETURNING did, repository",
        );
        repositories.extend(session.load::<(Text, Text), _>(delete.each(chunk)).await?);
    }
    Ok(repositories)
}

/// Inserts manifests that are not there, with all that belongs to them.
pub(in crate::store) async fn insert(
    session: &mut Session,
    manifests: &[(Key<'_>, &Manifest)],
) -> QueryResult<()> {
    for chunk in chunked(manifests, |((did, rkey), m)| {
        let hold = m.hold.as_ref().map(|hold| hold.as_str());
        let (config_digest, config_size, config_type) = match &m.config {
            Some(config) => {
                (Some(config.digest.as_str()), Some(config.size), Some(config.media_type.as_str()))
            }
            None => (None, None, None),
        };
        row![
            *did,
            *rkey,
            &m.repository,
            &m.digest,
            &m.media_type,
            m.schema_version,
            hold,
            m.created_at.0,
            m.artifact_type.as_str(),
            config_digest,
            config_size,
            config_type,
            &m.subject_digest,
        ]
    }) {
        let insert = Statement::new(
            "INSERT INTO manifests (did, rkey, repository, digest, media_type, schema_version, hold_did, created_at,
                 artifact_type, config_digest, config_size, config_media_type, subject_digest) {rows}",
        );
        session.execute(insert.each(chunk)).await?;
    }
    insert_layers(session, manifests).await?;
    insert_references(session, manifests).await?;
    insert_annotations(session, manifests).await
}

async fn insert_layers(session: &mut Session, manifests: &[(Key<'_>, &Manifest)]) -> QueryResult<()> {
    let layers: Vec<_> = manifests
        .iter()
        .flat_map(|(key, m)| (0..).zip(&m.layers).map(move |(index, layer)| (key, index, layer)))
        .collect();
    for chunk in chunked(&layers, |((did, rkey), index, layer)| {
        row![*did, *rkey, *index, &layer.digest, layer.size, &layer.media_type]
    }) {
        let insert =
            Statement::new("INSERT INTO layers (did, rkey, layer_index, digest, size, media_type) {rows}");
        session.execute(insert.each(chunk)).await?;
    }
    Ok(())
}

async fn insert_references(session: &mut Session, manifests: &[(Key<'_>, &Manifest)]) -> QueryResult<()> {
    let references: Vec<_> = manifests
        .iter()
        .flat_map(|(key, m)| (0..).zip(&m.references).map(move |(index, r)| (key, index, r)))
        .collect();
    for chunk in chunked(&references, |((did, rkey), index, r)| {
        let (os, os_version) = (&r.os, &r.os_version);
        row![
            *did,
            *rkey,
            *index,
            &r.digest,
            r.size,
            &r.media_type,
            os,
            &r.architecture,
            &r.variant,
            os_version,
            r.is_attestation,
        ]
    }) {
        let insert = Statement::new(
            "INSERT INTO manifest_references (did, rkey, reference_index, digest, size, media_type, os, architecture,
                 variant, os_version, is_attestation) {rows}",
        );
        session.execute(insert.each(chunk)).await?;
    }
    Ok(())
}

async fn insert_annotations(session: &mut Session, manifests: &[(Key<'_>, &Manifest)]) -> QueryResult<()> {
    let annotations: Vec<_> =
        manifests.iter().flat_map(|(key, m)| m.annotations.iter().map(move |entry| (key, entry))).collect();
    for chunk in chunked(&annotations, |((did, rkey), (key, value))| row![*did, *rkey, *key, *value]) {
        let insert = Statement::new("INSERT INTO manifest_annotations (did, rkey, key, value) {rows}");
        session.execute(insert.each(chunk)).await?;
    }
    Ok(())
}
