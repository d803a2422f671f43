//! Holds, as far as a registry manages them: their tiers, and being told of a user's. Only a token of the trusted registry is
//! taken, and its signature, its audience, its method and its time are checked; written from the specification, by hand.
//! <https://atproto.com/specs/xrpc#inter-service-authentication-jwt>

use std::collections::{BTreeMap, HashSet};

use k256::ecdsa::signature::hazmat::PrehashVerifier;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::account::Accounts;
use super::{Net, Site, World};
use crate::http::{Answer, Request};
use crate::labeler::sign::base58;
use crate::records::CREW;
use crate::{ids, lock};

const PREFIX: &str = "/xrpc/io.atcr.hold.";
const UPDATE: &str = "io.atcr.hold.updateCrewTier";
/// The longest life of a token, in seconds.
const LIFETIME_MAX: i64 = 60;

/// A key's curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Curve {
    /// secp256k1.
    K256,
    /// P-256.
    P256,
}

/// The registry that holds trust.
#[derive(Clone, Debug)]
pub struct Registry {
    /// Its DID.
    pub did: String,
    /// Its private key as multibase text.
    pub signing_key: String,
}

/// What a hold was told, or was to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierUpdate {
    /// Which hold.
    pub hold: String,
    /// Of whom.
    pub user: String,
    /// Which rank.
    pub rank: usize,
    /// The error's name, if it was refused.
    pub refused: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Desk {
    tiers: BTreeMap<String, Vec<String>>,
    trusted: Option<(String, Key)>,
    numbers: HashSet<String>,
    updates: Vec<TierUpdate>,
}

#[derive(Debug)]
enum Key {
    K256(k256::ecdsa::VerifyingKey),
    P256(p256::ecdsa::VerifyingKey),
}

/// Holds and the registry that they trust.
impl Net {
    /// Makes the hold `did:web:NAME.test` with these tiers.
    pub fn add_hold(&self, name: &str, tiers: &[&str]) -> String {
        let did = self.add_web_account(name);
        self.set_tiers(&did, tiers);
        did
    }

    /// The tiers of an account that is a hold from now on, whatever it was.
    pub fn set_tiers(&self, did: &str, tiers: &[&str]) {
        let tiers = tiers.iter().map(|tier| (*tier).to_owned()).collect();
        lock(&self.world.holds).tiers.insert(did.to_owned(), tiers);
    }

    /// A registry with a key by number, which all holds trust from now on, and no other.
    ///
    /// # Panics
    /// Never: small numbers are keys of both curves.
    pub fn trust_registry(&self, curve: Curve, number: u8) -> Registry {
        let (did, scalar) = ("did:web:registry.test".to_owned(), [number.max(1); 32]);
        let (code, key) = match curve {
            Curve::K256 => {
                let key = k256::ecdsa::SigningKey::from_slice(&scalar).expect("a small number is a key");
                ([0x81, 0x26], Key::K256(*key.verifying_key()))
            }
            Curve::P256 => {
                let key = p256::ecdsa::SigningKey::from_slice(&scalar).expect("a small number is a key");
                ([0x86, 0x26], Key::P256(*key.verifying_key()))
            }
        };
        lock(&self.world.holds).trusted = Some((did.clone(), key));
        Registry { did, signing_key: format!("z{}", base58(&[&code[..], &scalar].concat())) }
    }

    /// What holds were told so far, in order.
    pub fn tier_updates(&self) -> Vec<TierUpdate> {
        lock(&self.world.holds).updates.clone()
    }

    /// The tier of a user in the hold's own crew record.
    pub fn tier_of(&self, hold: &str, user: &str) -> Option<String> {
        let accounts = lock(&self.world.accounts);
        let (_, record) = crew_of(&accounts, hold, user)?;
        record["tier"].as_str().map(str::to_owned)
    }
}

/// Whether the account is a hold.
pub(super) fn is_hold(world: &World, did: &str) -> bool {
    lock(&world.holds).tiers.contains_key(did)
}

/// The answer of a hold, if one is asked as such.
pub(super) fn answer(world: &World, site: Site, request: &Request) -> Option<Answer> {
    let method = request.path.strip_prefix(PREFIX)?;
    let hold = asked(world, site, &request.host)?;
    match (request.method.as_str(), method) {
        ("GET", "listTiers") => Some(list_tiers(world, &hold)),
        ("POST", "updateCrewTier") => Some(update_crew_tier(world, &hold, request)),
        _ => None,
    }
}

fn asked(world: &World, site: Site, host: &str) -> Option<String> {
    let accounts = lock(&world.accounts);
    let holds = lock(&world.holds);
    let here = |did: &&String| match site {
        Site::Hosts => **did == format!("did:web:{host}"),
        Site::Pds(number) => accounts.get(did).is_some_and(|account| account.pds == Some(number)),
        _ => false,
    };
    holds.tiers.keys().find(here).cloned()
}

fn list_tiers(world: &World, hold: &str) -> Answer {
    let holds = lock(&world.holds);
    let tier = |(rank, name): (usize, &String)| {
        let gigabytes = 5 * (rank + 1);
        json!({ "name": name, "quotaBytes": gigabytes << 30, "quotaFormatted": format!("{gigabytes} GB"),
            "scanOnPush": rank > 0 })
    };
    let tiers: Vec<Value> = holds.tiers.get(hold).into_iter().flatten().enumerate().map(tier).collect();
    Answer::json(200, &json!({ "tiers": tiers }))
}

fn update_crew_tier(world: &World, hold: &str, request: &Request) -> Answer {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let user = body["userDid"].as_str().unwrap_or_default().to_owned();
    let rank = body["tierRank"].as_u64().map_or(usize::MAX, |rank| rank as usize);
    let outcome = lock(&world.holds).check(hold, request.header("authorization").unwrap_or_default());
    let outcome = match outcome {
        Err(why) => Err((401, "AuthRequired", why)),
        Ok(()) => set_tier(world, hold, &user, rank),
    };
    let refused = outcome.as_ref().err().map(|(_, name, _)| (*name).to_owned());
    lock(&world.holds).updates.push(TierUpdate { hold: hold.to_owned(), user, rank, refused });
    match outcome {
        Ok(name) => Answer::json(200, &json!({ "tierName": name })),
        Err((status, name, why)) => Answer::error(status, name, why),
    }
}

/// Written to the hold's own record, which no Jetstream carries.
fn set_tier(
    world: &World,
    hold: &str,
    user: &str,
    rank: usize,
) -> Result<String, (u16, &'static str, &'static str)> {
    let mut accounts = lock(&world.accounts);
    let Some((rkey, mut record)) = crew_of(&accounts, hold, user) else {
        return Err((400, "UserNotFound", "the user is not of the crew"));
    };
    let name = lock(&world.holds).tiers.get(hold).and_then(|tiers| tiers.get(rank)).cloned();
    let Some(name) = name else { return Err((400, "InvalidRequest", "there is no such tier")) };
    record["tier"] = json!(name);
    accounts.put(hold, CREW, &rkey, record);
    Ok(name)
}

fn crew_of(accounts: &Accounts, hold: &str, user: &str) -> Option<(String, Value)> {
    let crew = accounts.get(hold)?.records.get(CREW)?;
    let mine = crew.iter().find(|(_, record)| record.value["member"] == user);
    mine.map(|(rkey, record)| (rkey.clone(), record.value.clone()))
}

impl Desk {
    fn check(&mut self, hold: &str, shown: &str) -> Result<(), &'static str> {
        let (issuer, key) = self.trusted.as_ref().ok_or("no registry is trusted")?;
        let token = shown.strip_prefix("Bearer ").ok_or("there is no token")?;
        let (signed, signature) = token.rsplit_once('.').ok_or("it is no token")?;
        let (head, body) = signed.split_once('.').ok_or("it is no token")?;
        let read = |part: &str| -> Option<Value> { serde_json::from_slice(&base64url(part)?).ok() };
        let (head, body) = (read(head).ok_or("its head")?, read(body).ok_or("its body")?);
        let (signature, hash) = (base64url(signature).ok_or("its signature")?, Sha256::digest(signed));
        let is_signed = match key {
            Key::K256(key) => {
                head["alg"] == "ES256K"
                    && k256::ecdsa::Signature::from_slice(&signature)
                        .is_ok_and(|s| s.normalize_s().is_none() && key.verify_prehash(&hash, &s).is_ok())
            }
            Key::P256(key) => {
                head["alg"] == "ES256"
                    && p256::ecdsa::Signature::from_slice(&signature)
                        .is_ok_and(|s| s.normalize_s().is_none() && key.verify_prehash(&hash, &s).is_ok())
            }
        };
        let now = ids::now_us() / 1_000_000;
        let time = |name: &str| body[name].as_i64().unwrap_or(i64::MIN);
        let number = body["jti"].as_str().unwrap_or_default().to_owned();
        let rules = [
            (is_signed, "the signature is not the registry's"),
            (head["typ"] == "JWT", "typ"),
            (body["iss"] == issuer.as_str(), "iss"),
            (body["aud"] == hold, "aud"),
            (body["lxm"] == UPDATE, "lxm"),
            ((now - LIFETIME_MAX..=now + 1).contains(&time("iat")), "iat"),
            (time("exp") > now && time("exp") - time("iat") <= LIFETIME_MAX, "exp"),
            (number.len() >= 16 && self.numbers.insert(number), "jti"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(what))
    }
}

fn base64url(text: &str) -> Option<Vec<u8>> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for letter in text.bytes() {
        bits = bits << 6 | LETTERS.iter().position(|l| *l == letter)? as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}
