//! A statement as SQL text with its values: the one query fragment that both databases run.
//!
//! Nearly every statement of this store has a list of rows, an `ON CONFLICT … DO UPDATE … WHERE` or a `RETURNING`,
//! which diesel's builder cannot say once for both databases. So they are written as SQL, once, and each is run by the
//! tests on both.

mod rows;

use std::sync::Arc;

use diesel::backend::Backend;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::serialize::ToSql;
use diesel::sql_types::{BigInt, Bool, HasSqlType, Nullable, Text};
use diesel::{QueryResult, RunQueryDsl};

use rows::{BindRows, Rows};

/// A value bound to a `?`.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(Option<String>),
    Int(Option<i64>),
    Bool(bool),
}

macro_rules! value_from {
    ($($from:ty => |$x:ident| $to:expr;)*) => { $(
        impl From<$from> for Value {
            fn from($x: $from) -> Self {
                $to
            }
        }
    )* };
}

value_from! {
    &str => |x| Value::Text(Some(x.to_owned()));
    String => |x| Value::Text(Some(x));
    &String => |x| Value::Text(Some(x.clone()));
    Option<String> => |x| Value::Text(x);
    &Option<String> => |x| Value::Text(x.clone());
    Option<&str> => |x| Value::Text(x.map(str::to_owned));
    i64 => |x| Value::Int(Some(x));
    Option<i64> => |x| Value::Int(x);
    bool => |x| Value::Bool(x);
}

/// Values for one row: `row![did, rkey, 3]`.
macro_rules! row {
    ($($x:expr),* $(,)?) => { [$($crate::store::statement::Value::from($x)),*] };
}
pub(super) use row;

/// SQL text, its `?`s bound in order.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    text: String,
    values: Vec<Value>,
    rows: Option<Picked>,
    is_by_row: bool,
}

/// The rows of a statement: all, or one of them.
#[derive(Clone, Debug)]
struct Picked {
    rows: Arc<Rows>,
    only: Option<usize>,
}

impl Statement {
    /// `text` may hold `?` for a value, one `{rows}` for a list of rows, and the words of a [`Dialect`].
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), values: Vec::new(), rows: None, is_by_row: false }
    }

    /// Binds the next `?`.
    pub(super) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// What `{rows}` stands for: a query that has these rows, in this order.
    pub(super) fn rows<const N: usize>(mut self, rows: Vec<[Value; N]>) -> Self {
        assert!(!rows.is_empty(), "a list of no rows is no SQL: {}", self.text);
        self.rows = Some(Picked { rows: Arc::new(Rows::of(rows)), only: None });
        self
    }

    /// The same rows, for a statement that does with all of them what it would do with one after the other: what it does with
    /// one depends on no other, and the order of what it returns is nobody's business.
    ///
    /// SQLite reads it once then and runs it for each row, which costs it less than to read a list.
    pub(super) fn each<const N: usize>(self, rows: Vec<[Value; N]>) -> Self {
        Self { is_by_row: true, ..self.rows(rows) }
    }

    /// What SQLite runs in its place: itself, or itself for each row.
    pub(super) fn one_by_one(self) -> impl Iterator<Item = Self> {
        let count = self.rows.as_ref().filter(|_| self.is_by_row).map(|picked| picked.rows.count());
        (0..count.unwrap_or(1)).map(move |row| {
            let mut one = self.clone();
            if let (Some(picked), Some(_)) = (&mut one.rows, count) {
                picked.only = Some(row);
            }
            one
        })
    }

    /// The same in the database's own words.
    pub(super) fn spoken(mut self, dialect: &Dialect) -> Self {
        if dialect.words.iter().any(|(word, _)| self.text.contains(word)) {
            self.text = dialect.said(&self.text);
        }
        self
    }

    /// The same, with the types of the columns that it returns.
    pub(super) fn typed<ST>(self) -> Typed<ST> {
        Typed(self, std::marker::PhantomData)
    }
}

/// What the two databases say differently: `{now_us}`, the database's clock; `{greatest}`, of two numbers; `{bytes}`,
/// an order of texts by their bytes; `{for_share}`, the fence's lock.
#[derive(Debug)]
pub(super) struct Dialect {
    pub(super) words: [(&'static str, &'static str); 4],
}

impl Dialect {
    /// The text with the database's words in it.
    pub(super) fn said(&self, text: &str) -> String {
        self.words.iter().fold(text.to_owned(), |text, (word, meaning)| text.replace(word, meaning))
    }
}

impl<DB> QueryFragment<DB> for Statement
where
    DB: Backend + BindRows + HasSqlType<Text> + HasSqlType<BigInt> + HasSqlType<Bool>,
    Option<String>: ToSql<Nullable<Text>, DB>,
    Option<i64>: ToSql<Nullable<BigInt>, DB>,
    bool: ToSql<Bool, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        let mut values = self.values.iter();
        let mut rows = self.rows.as_ref();
        for (index, piece) in self.text.split('?').enumerate() {
            if index > 0 {
                match values.next().expect("a value is bound to each `?`") {
                    Value::Text(x) => out.push_bind_param::<Nullable<Text>, _>(x)?,
                    Value::Int(x) => out.push_bind_param::<Nullable<BigInt>, _>(x)?,
                    Value::Bool(x) => out.push_bind_param::<Bool, _>(x)?,
                }
            }
            match piece.split_once("{rows}") {
                None => out.push_sql(piece),
                Some((before, after)) => {
                    out.push_sql(before);
                    let Picked { rows, only } = rows.take().expect("there are rows for `{rows}`");
                    DB::bind_rows(rows, *only, &mut out)?;
                    out.push_sql(after);
                }
            }
        }
        assert!(values.next().is_none() && rows.is_none(), "more values than places: {}", self.text);
        Ok(())
    }
}

impl QueryId for Statement {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<C> RunQueryDsl<C> for Statement {}

/// A statement that returns rows of the SQL types `ST`.
#[derive(Clone, Debug)]
pub(super) struct Typed<ST>(Statement, std::marker::PhantomData<ST>);

impl<ST> Query for Typed<ST> {
    type SqlType = ST;
}

impl<ST, DB: Backend> QueryFragment<DB> for Typed<ST>
where
    Statement: QueryFragment<DB>,
{
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        self.0.walk_ast(out)
    }
}

impl<ST> QueryId for Typed<ST> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<ST, C> RunQueryDsl<C> for Typed<ST> {}

#[cfg(test)]
mod tests {
    use diesel::debug_query;
    use diesel::sqlite::Sqlite;

    use super::*;

    fn said(statement: Statement) -> Vec<String> {
        statement.one_by_one().map(|one| debug_query::<Sqlite, _>(&one).to_string()).collect()
    }

    #[test]
    fn for_each_row_the_text_is_the_same_and_its_values_are_bound() {
        let text = "DELETE FROM t WHERE a > ? AND (b, c) IN ({rows}) AND d = ?";
        let each = Statement::new(text).bind(7).each(vec![row!["x", 1], row!["y", 2]]).bind(true);
        let sql = "DELETE FROM t WHERE a > ? AND (b, c) IN (VALUES (?,?)) AND d = ?";
        let bound = ["x\"), Some(1", "y\"), Some(2"].map(|row| format!("[Some(7), Some(\"{row}), true]"));
        assert_eq!(said(each), bound.map(|bound| format!("{sql} -- binds: {bound}")));
    }

    #[test]
    fn a_list_of_rows_is_one_statement() {
        let list =
            Statement::new("SELECT a FROM t WHERE a IN ({rows})").rows(vec![row![1], row![2], row![3]]);
        let [said] = &said(list)[..] else { panic!("one statement") };
        assert!(said.starts_with("SELECT a FROM t WHERE a IN (VALUES (?),(?),(?)) -- binds"), "{said}");
    }
}
