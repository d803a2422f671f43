//! The protocol's CBOR: read from strangers, and written again as it was signed. Owns the format alone.
//! <https://dasl.ing/drisl.html>
//!
//! Reading refuses what has no place in it (indefinite lengths, keys that are no text or come twice, other tags, half
//! floats) and is indifferent to what it cannot be misread by: the order of keys, and numbers that are longer than need be.

/// Real messages nest four deep; the bound keeps a stranger's from using up the stack.
const DEPTH_MAX: usize = 16;

/// The tag of a link.
const LINK: u64 = 42;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer.
    Int(i64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// Keys and values, in the order in which they came.
    Map(Vec<(String, Value)>),
    /// A link, as it was written.
    Link(Vec<u8>),
    /// A truth value.
    Bool(bool),
    /// A number with a fraction.
    Float(f64),
    /// Nothing.
    Null,
}

/// Why bytes are no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no CBOR of the protocol: {0}")]
pub struct CborError(&'static str);

impl Value {
    /// The value of a key of a map.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Map(pairs) => pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text that it is.
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The integer that it is.
    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Int(int) => Some(*int),
            _ => None,
        }
    }
}

/// Reads the value at the beginning of `bytes`, and gives what follows it.
pub fn read(bytes: &[u8]) -> Result<(Value, &[u8]), CborError> {
    let mut rest = bytes;
    let value = value(&mut rest, DEPTH_MAX)?;
    Ok((value, rest))
}

/// Writes a value in the one form that it has. The keys of a map have to come in their order.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Int(int) if *int >= 0 => head(0, int.unsigned_abs(), out),
        Value::Int(int) => head(1, int.unsigned_abs() - 1, out),
        Value::Bytes(bytes) => {
            head(2, bytes.len() as u64, out);
            out.extend_from_slice(bytes);
        }
        Value::Text(text) => {
            head(3, text.len() as u64, out);
            out.extend_from_slice(text.as_bytes());
        }
        Value::List(list) => {
            head(4, list.len() as u64, out);
            list.iter().for_each(|value| write(value, out));
        }
        Value::Map(pairs) => {
            head(5, pairs.len() as u64, out);
            for (key, value) in pairs {
                head(3, key.len() as u64, out);
                out.extend_from_slice(key.as_bytes());
                write(value, out);
            }
        }
        Value::Link(bytes) => {
            head(6, LINK, out);
            head(2, bytes.len() as u64, out);
            out.extend_from_slice(bytes);
        }
        Value::Bool(false) => out.push(0xf4),
        Value::Bool(true) => out.push(0xf5),
        Value::Null => out.push(0xf6),
        Value::Float(float) => {
            out.push(0xfb);
            out.extend_from_slice(&float.to_be_bytes());
        }
    }
}

fn head(major: u8, argument: u64, out: &mut Vec<u8>) {
    let major = major << 5;
    match argument {
        0..24 => out.push(major | argument as u8),
        24..0x100 => out.extend_from_slice(&[major | 24, argument as u8]),
        0x100..0x1_0000 => {
            out.push(major | 25);
            out.extend_from_slice(&(argument as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major | 26);
            out.extend_from_slice(&(argument as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&argument.to_be_bytes());
        }
    }
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

#[cfg(test)]
mod tests;
