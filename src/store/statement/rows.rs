//! A list of rows in a statement, as each database takes it fastest.
//!
//! SQLite: `VALUES (?, …), (?, …)`, or one row after the other. PostgreSQL reads, types and plans thousands of parameters one by one; there each column
//! is one parameter, an array, and the text is the same for every length.

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::pg::Pg;
use diesel::query_builder::AstPass;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Text};
use diesel::sqlite::Sqlite;

use super::Value;

/// At least one row, by columns of one length.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    count: usize,
    columns: Vec<Column>,
}

#[derive(Clone, Debug)]
enum Column {
    Text(Vec<Option<String>>),
    Int(Vec<Option<i64>>),
    Bool(Vec<bool>),
}

impl Rows {
    pub(super) fn of<const N: usize>(rows: Vec<[Value; N]>) -> Self {
        let count = rows.len();
        let mut columns: Vec<Column> = match rows.first() {
            None => Vec::new(),
            Some(first) => first.iter().map(|value| Column::like(value, count)).collect(),
        };
        for row in rows {
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        Self { count, columns }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }
}

impl Column {
    fn like(value: &Value, count: usize) -> Self {
        match value {
            Value::Text(_) => Self::Text(Vec::with_capacity(count)),
            Value::Int(_) => Self::Int(Vec::with_capacity(count)),
            Value::Bool(_) => Self::Bool(Vec::with_capacity(count)),
        }
    }

    fn push(&mut self, value: Value) {
        match (self, value) {
            (Self::Text(list), Value::Text(x)) => list.push(x),
            (Self::Int(list), Value::Int(x)) => list.push(x),
            (Self::Bool(list), Value::Bool(x)) => list.push(x),
            (column, value) => panic!("a column has one type: {value:?} in {column:?}"),
        }
    }
}

/// How a database takes rows.
pub(super) trait BindRows: Backend {
    /// Writes a query that has the rows, or `only` one of them, and binds them.
    fn bind_rows<'b>(rows: &'b Rows, only: Option<usize>, out: &mut AstPass<'_, 'b, Self>)
    -> QueryResult<()>;
}

impl BindRows for Sqlite {
    fn bind_rows<'b>(
        rows: &'b Rows,
        only: Option<usize>,
        out: &mut AstPass<'_, 'b, Self>,
    ) -> QueryResult<()> {
        let picked = match only {
            Some(row) => row..row + 1,
            None => {
                // Lists differ in length, so their texts are not worth a place among the prepared statements.
                out.unsafe_to_cache_prepared();
                0..rows.count
            }
        };
        let first = picked.start;
        for row in picked {
            out.push_sql(if row == first { "VALUES (" } else { ",(" });
            for (n, column) in rows.columns.iter().enumerate() {
                if n > 0 {
                    out.push_sql(",");
                }
                match column {
                    Column::Text(list) => out.push_bind_param::<Nullable<Text>, _>(&list[row])?,
                    Column::Int(list) => out.push_bind_param::<Nullable<BigInt>, _>(&list[row])?,
                    Column::Bool(list) => out.push_bind_param::<Bool, _>(&list[row])?,
                }
            }
            out.push_sql(")");
        }
        Ok(())
    }
}

impl BindRows for Pg {
    fn bind_rows<'b>(
        rows: &'b Rows,
        only: Option<usize>,
        out: &mut AstPass<'_, 'b, Self>,
    ) -> QueryResult<()> {
        debug_assert!(only.is_none(), "arrays are taken whole");
        out.push_sql("SELECT * FROM unnest(");
        for (n, column) in rows.columns.iter().enumerate() {
            if n > 0 {
                out.push_sql(", ");
            }
            match column {
                Column::Text(list) => out.push_bind_param::<Array<Nullable<Text>>, _>(list)?,
                Column::Int(list) => out.push_bind_param::<Array<Nullable<BigInt>>, _>(list)?,
                Column::Bool(list) => out.push_bind_param::<Array<Bool>, _>(list)?,
            }
        }
        out.push_sql(")");
        Ok(())
    }
}
