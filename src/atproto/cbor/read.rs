//! Bytes into values.

use super::{LINK, Value};

/// Real messages nest four deep; the bound keeps a stranger's from using up the stack.
const DEPTH_MAX: usize = 16;

/// Why bytes are no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no CBOR of the protocol: {0}")]
pub struct CborError(&'static str);

/// Reads the value at the beginning of `bytes`, and gives what follows it.
pub fn read(bytes: &[u8]) -> Result<(Value, &[u8]), CborError> {
    let mut rest = bytes;
    let value = value(&mut rest, DEPTH_MAX)?;
    Ok((value, rest))
}

fn value(rest: &mut &[u8], depth: usize) -> Result<Value, CborError> {
    let depth = depth.checked_sub(1).ok_or(CborError("it is too deep"))?;
    let initial = take(rest, 1)?[0];
    let (major, low) = (initial >> 5, initial & 0x1f);
    if major == 7 {
        return match low {
            20 => Ok(Value::Bool(false)),
            21 => Ok(Value::Bool(true)),
            22 => Ok(Value::Null),
            27 => Ok(Value::Float(f64::from_be_bytes(array(rest)?))),
            _ => Err(CborError("a simple value that it does not have")),
        };
    }
    let argument = match low {
        0..24 => u64::from(low),
        24 => u64::from(take(rest, 1)?[0]),
        25 => u64::from(u16::from_be_bytes(array(rest)?)),
        26 => u64::from(u32::from_be_bytes(array(rest)?)),
        27 => u64::from_be_bytes(array(rest)?),
        _ => return Err(CborError("a length that is not given")),
    };
    let int = || i64::try_from(argument).map_err(|_| CborError("a number that is too large"));
    // Every item takes a byte at least, so a list cannot be longer than what is left: nothing is reserved beforehand.
    let length = || usize::try_from(argument).map_err(|_| CborError("a length beyond the end"));
    match major {
        0 => Ok(Value::Int(int()?)),
        1 => Ok(Value::Int(-1 - int()?)),
        2 => Ok(Value::Bytes(take(rest, length()?)?.to_vec())),
        3 => Ok(Value::Text(text(rest, length()?)?)),
        4 => (0..argument).map(|_| value(rest, depth)).collect::<Result<_, _>>().map(Value::List),
        5 => map(rest, argument, depth),
        _ if argument == LINK => match value(rest, depth)? {
            Value::Bytes(bytes) => Ok(Value::Link(bytes)),
            _ => Err(CborError("a link that is no bytes")),
        },
        _ => Err(CborError("a tag that it does not have")),
    }
}

fn map(rest: &mut &[u8], length: u64, depth: usize) -> Result<Value, CborError> {
    let mut pairs: Vec<(String, Value)> = Vec::new();
    let mut keys = std::collections::HashSet::new();
    for _ in 0..length {
        let Value::Text(key) = value(rest, 1)? else { return Err(CborError("a key that is no text")) };
        if !keys.insert(key.clone()) {
            return Err(CborError("a key that comes twice"));
        }
        pairs.push((key, value(rest, depth)?));
    }
    Ok(Value::Map(pairs))
}

fn text(rest: &mut &[u8], length: usize) -> Result<String, CborError> {
    let bytes = take(rest, length)?;
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| CborError("a text that is not UTF-8"))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], CborError> {
    let (taken, after) = rest.split_at_checked(length).ok_or(CborError("it ends too early"))?;
    *rest = after;
    Ok(taken)
}

fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], CborError> {
    let (taken, after) = rest.split_first_chunk::<N>().ok_or(CborError("it ends too early"))?;
    *rest = after;
    Ok(*taken)
}
