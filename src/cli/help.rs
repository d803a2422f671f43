//! What help says after the options: what a command waits for, how it ends, and examples, in 80 columns.
//! `tests/it/documents` runs each example.

/// `atcr-workers --help`.
pub(super) const ALL: &str = "\
Settings come from the embedded defaults, then FILE, then the environment
(ATCR__SECTION__KEY). `atcr-workers settings` prints what is in effect.

Commands that change something ask the database, not a process: they work from
any machine that has the same database.url.

Exit codes:
  0    done; of `run`: stopped, and every lease was released
  1    failed (machine, database, network): a restart, or another try, may help
  75   stopped, but a lease was left to expire
  78   settings or command line are wrong: a restart cannot help
  130  a second signal: ended at once

Examples:
  atcr-workers                         run with the defaults, on ./atcr.db
  atcr-workers status                  everything at a glance
  atcr-workers leases                  who runs what
  atcr-workers leases drain web1       before web1 is stopped for long
  atcr-workers backfill --all          read every repository again
  atcr-workers webhooks                the users' webhooks, and how they fare
  atcr-workers settings                every setting, and where it came from
  ATCR__DATABASE__URL=postgres://user:password@host/database atcr-workers run
      on PostgreSQL: on as many machines as you like
  atcr-workers leases --help           examples of a command";

/// `run --help`.
pub(super) const RUN: &str = "\
Brings the schema up to date, registers, and runs each worker whose lease it
gets; the others stand by. SIGTERM or SIGINT: workers stop, leases are released,
each release is acknowledged, then it exits. A second signal ends it at once.

Exit codes: 0 stopped in order, 1 failed, 75 a lease was left to expire,
78 settings are wrong, or leases are off beside another instance, 130 second
signal

Examples:
  atcr-workers run
  atcr-workers run --settings settings/production.toml
  atcr-workers run --exit-with-parent     for a registry whose child it is
  ATCR__INSTANCE__LABEL=web1 atcr-workers run    a name for people";

/// `status --help`.
pub(super) const STATUS: &str = "\
Read from the database, so it is the same from any machine; which holds answer,
and the version, are asked of the instances on this machine. Waits for nothing.

Exit codes: 0 printed, 1 there is no database, or it does not answer

Examples:
  atcr-workers status
  atcr-workers status --json    the same as one object";

/// `leases --help`.
pub(super) const LEASES: &str = "\
INSTANCE is a label, or the first digits of an incarnation, as the list shows
them. A wish is written to the database and carried out by the instances; it
stays, also if the command is interrupted.

Exit codes: 0 listed, or done; 1 not done in 30 s, no such lease or instance

Examples:
  atcr-workers leases                       who has what
  atcr-workers leases --json                the same for programs
  atcr-workers leases history jetstream     who had it, and how it ended
  atcr-workers leases drain web1            it gives its leases up
  atcr-workers leases undrain web1          it takes leases again
  atcr-workers leases move jetstream web2   put a lease somewhere
  atcr-workers leases pause backfill        run it nowhere
  atcr-workers leases resume backfill       until it is resumed";

/// `leases history --help`.
pub(super) const HISTORY: &str = "\
How a term ends: released (handed over), released after failures (the worker
failed too often), left (its process ended without a release), beacon gone
(crashed, or cut off), expired (stood still for its TTL). Kept for
leases.history_for.

Examples:
  atcr-workers leases history                      all leases
  atcr-workers leases history webhooks --limit 5   the last of one
  atcr-workers leases history --json               with milliseconds";

/// `leases drain --help`.
pub(super) const DRAIN: &str = "\
Before a machine is stopped for long, or for a look at it while it stands by.
Prints which leases are still there until the last has left, for 30 s at most.
It lasts until `undrain`, or until the instance registers anew: when it is
started again, or has lost its session with the database.

Examples:
  atcr-workers leases drain web1
  atcr-workers leases undrain web1    have it take leases again";

/// `leases undrain --help`.
pub(super) const UNDRAIN: &str = "\
Does not wait for leases to come: balance moves them, one after the other.

Examples:
  atcr-workers leases undrain web1";

/// `leases move --help`.
pub(super) const MOVE: &str = "\
The holder stops the worker and releases; INSTANCE takes the lease. Waits until
it has it, for 30 s at most. Balance may move this or another one again later.

Examples:
  atcr-workers leases move jetstream web2";

/// `leases pause --help`.
pub(super) const PAUSE: &str = "\
Waits until no instance runs it, for 30 s at most. It lasts until `resume`, over
restarts of every instance.

Examples:
  atcr-workers leases pause backfill
  atcr-workers leases resume backfill    have it run again";

/// `leases resume --help`.
pub(super) const RESUME: &str = "\
Does not wait for its start: `atcr-workers leases` shows it.

Examples:
  atcr-workers leases resume backfill";

/// `backfill --help`.
pub(super) const BACKFILL: &str = "\
Every record of them is written anew, whatever the index knows. The wish stands
in the database until it is fulfilled, also if this command is interrupted.
Progress goes to the standard error, the result to the standard output.

Exit codes: 0 read (or asked for, with --no-wait), 1 a repository could not be
read, or nobody took the wish up within 30 s (it stands)

Examples:
  atcr-workers backfill --did did:plc:ewvi7nxzyoun6zhxrhs64oiz   one repository
  atcr-workers backfill --all                                    every one
  atcr-workers backfill --all --no-wait                          only ask for it";

/// `webhooks --help`.
pub(super) const WEBHOOKS: &str = "\
Triggers: push, scan:first; with a tier that has them also scan:all and
scan:changed. How many webhooks a user may have, and with which triggers, stands
in billing.tiers; without tiers everybody has one with the first two.

Exit codes: 0 done, 1 it cannot be done (the reason is told), 78 a wrong
address, trigger or secret

Examples:
  atcr-workers webhooks                      all of them
  atcr-workers webhooks list --json          the same for programs
  atcr-workers webhooks add --user alice.test \\
      --url https://ci.example/hook --triggers push,scan:first --generate-secret
  atcr-workers webhooks test 1               send a test, wait for the answer
  atcr-workers webhooks disable 1 --reason 'too loud'
  atcr-workers webhooks enable 1
  atcr-workers webhooks remove 1             with its deliveries";

/// `webhooks add --help`.
pub(super) const ADD: &str = "\
Prints the new webhook's number, and in a second line the secret that it made.
A secret is never taken from the command line, which others see.

Examples:
  atcr-workers webhooks add --user alice.test \\
      --url https://ci.example/hook --triggers push --generate-secret
  atcr-workers webhooks add --user did:plc:ewvi7nxzyoun6zhxrhs64oiz \\
      --url https://ci.example/hook --triggers push --secret-env HOOK_SECRET";

/// `webhooks list --help`.
pub(super) const LIST: &str = "\
Examples:
  atcr-workers webhooks list
  atcr-workers webhooks list --user alice.test --json";

/// `webhooks remove --help`.
pub(super) const REMOVE: &str = "\
Examples:
  atcr-workers webhooks remove 1";

/// `webhooks enable --help`.
pub(super) const ENABLE: &str = "\
It is told of what happens from now on, and its count of failures begins anew.

Examples:
  atcr-workers webhooks enable 1";

/// `webhooks disable --help`.
pub(super) const DISABLE: &str = "\
Examples:
  atcr-workers webhooks disable 1
  atcr-workers webhooks disable 1 --reason 'too loud'";

/// `webhooks test --help`.
pub(super) const TEST: &str = "\
Whoever runs the worker sends it. Waits for the first attempt: webhooks.timeout
and 30 s at most.

Exit codes: 0 delivered, 1 not delivered (the reason is told)

Examples:
  atcr-workers webhooks test 1
  atcr-workers webhooks test 1 --no-wait    only ask for it";

/// `webhooks redeliver --help`.
pub(super) const REDELIVER: &str = "\
The id is what the endpoint got as X-ATCR-Delivery, and `test` prints it. Waits
as `test` does.

Exit codes: 0 delivered, 1 not delivered (the reason is told)

Examples:
  atcr-workers webhooks redeliver whd_mfrggzdfmztwq2lknnwg23tpoa";

/// `migrate --help`.
pub(super) const MIGRATE: &str = "\
One process migrates, however many are started; the others wait (on SQLite for
two minutes at most). Each migration is one transaction. A database of a newer
version is refused (78).

Exit codes: 0 up to date, 1 failed; with --check: 1 something is pending

Examples:
  atcr-workers migrate --check    what would be applied
  atcr-workers migrate            before the first instance of a new version";

/// `completions --help`.
pub(super) const COMPLETIONS: &str = "\
Examples:
  atcr-workers completions bash > /etc/bash_completion.d/atcr-workers
  atcr-workers completions zsh > ~/.zfunc/_atcr-workers
  atcr-workers completions fish > ~/.config/fish/completions/atcr-workers.fish";

/// `settings --help`.
pub(super) const SETTINGS: &str = "\
Needs no database. What is wrong is told all at once, with what was expected.

Exit codes: 0 printed, 78 something is wrong

Examples:
  atcr-workers settings
  atcr-workers settings --settings settings/production.toml
  ATCR__LEASES__TTL=20s atcr-workers settings --json";
