"""Points the Jetstream client of PyPI's atproto at localnet's second wire, and checks that it sees what was changed.

    localnet serve >localnet.json &
    python check_jetstream_v2.py localnet.json

The client reads each event into the models that are generated from the lexicon, and drops what it cannot read without a
word: so what came is compared with what was done.
"""
import json
import sys
import threading
import time
import urllib.request

from atproto_client import models
from atproto_jetstream import JetstreamClient
from atproto_jetstream.exceptions import JetstreamCursorTooOldError

addresses = json.loads(open(sys.argv[1]).readline())
base = addresses["jetstreams_v2"][0].rsplit("/", 1)[0]
user = addresses["users"][0]
kinds = models.NetworkBskyJetstreamSubscribeEvents
passed = failed = 0


def tell(command, **fields):
    request = urllib.request.Request(
        f"{addresses['control']}/{command}", data=json.dumps(fields).encode(), method="POST"
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def stats():
    with urllib.request.urlopen(f"{addresses['control']}/stats") as answer:
        return json.load(answer)["jetstreams"][0]


def put(number):
    record = {"repository": "web", "number": number}
    return tell("put", did=user, collection="io.atcr.tag", rkey=f"peer{number}", record=record)


def until(what, condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


class Following:
    """A client in a thread of its own, and what it has heard."""

    def __init__(self, compress=True, **params):
        self.heard, self.error = [], None
        self.client = JetstreamClient(params or None, base_uri=base, compress=compress)
        self.thread = threading.Thread(target=self.run, daemon=True)
        before = stats()["handshakes"]
        self.thread.start()
        until("a handshake or an end", lambda: stats()["handshakes"] > before or not self.thread.is_alive())

    def run(self):
        try:
            self.client.start(self.heard.append)
        except Exception as error:  # told by the check that expects it
            self.error = error

    def until(self, count):
        until(f"{count} messages, have {len(self.heard)}", lambda: len(self.heard) >= count)
        return self.heard

    def stop(self):
        self.client.stop()
        self.thread.join(10)


def check(name):
    def run(function):
        global passed, failed
        try:
            function()
            passed += 1
            print("ok   ", name)
        except Exception as error:
            failed += 1
            print("FAIL ", name, repr(error)[:300])
    return run


# Not #sync: its `blocks` are {"$bytes": …}, as the protocol says and the real servers send them, and the client's model
# (0.0.73) takes only texts. It ends with an error there.
@check("commits, identities and accounts are read into their models, from compressed frames")
def _():
    following = Following(kinds=["commit", "identity", "account"])
    done = put(1)
    tell("delete", did=user, collection="io.atcr.tag", rkey="peer1")
    tell("identity", did=user)
    tell("sync", did=user)
    tell("set-account", did=user, active=True, status=None)
    commit, delete, identity, account = following.until(4)
    assert following.client.compressed
    following.stop()
    assert isinstance(commit, kinds.Commit) and commit.operation == "create", commit
    assert (commit.did, commit.collection, commit.rkey) == (user, "io.atcr.tag", "peer1"), commit
    assert (commit.rev, commit.cid) == (done["rev"], done["cid"]), commit
    assert commit.record["number"] == 1 and commit.witnessed_at == commit.time, commit
    assert isinstance(delete, kinds.Commit) and delete.record is None and delete.cid is None, delete
    assert isinstance(identity, kinds.Identity) and identity.identity.did == user, identity
    assert isinstance(account, kinds.Account) and account.account.active, account
    assert [m.seq - commit.seq for m in (commit, delete, identity, account)] == [0, 1, 2, 4]


@check("the same without compression, filtered by kind and collection")
def _():
    following = Following(compress=False, kinds=["commit"], collections=["io.atcr.*"])
    tell("identity", did=user)
    put(2)
    (commit,) = following.until(1)
    assert not following.client.compressed and commit.rkey == "peer2", commit
    following.stop()


@check("a cut is followed by the number, and nothing comes twice or is missing")
def _():
    following = Following()
    for number in range(3, 6):
        put(number)
        following.until(number - 2)
        tell("cut")  # after which the client waits, longer each time
    rkeys = [commit.rkey for commit in following.until(3)]
    following.stop()
    assert rkeys == ["peer3", "peer4", "peer5"], rkeys


@check("a time that is older than what is kept is told by a notice")
def _():
    tell("forget", keep=3)
    following = Following(cursor=1_000_000_000_000_000)
    info, *events = following.until(4)
    following.stop()
    assert isinstance(info, kinds.Info) and info.name == "OutdatedCursor", info
    assert len(events) == 3, events


@check("a number that is older than what is kept is refused by its name")
def _():
    following = Following(cursor=1)
    following.thread.join(10)
    assert isinstance(following.error, JetstreamCursorTooOldError), following.error


@check("a number of the future is told by a notice")
def _():
    following = Following(cursor=999_999)
    (info,) = following.until(1)
    following.stop()
    assert isinstance(info, kinds.Info) and info.name == "FutureCursor", info


@check("a slow consumer's error frame is known by its name, and the client goes on")
def _():
    following = Following()
    put(20)
    following.until(1)
    before = stats()["handshakes"]
    tell("send-error", name="ConsumerTooSlow", message="on command")
    until("a new connection", lambda: stats()["handshakes"] > before)
    put(21)
    assert [commit.rkey for commit in following.until(2)] == ["peer20", "peer21"]
    following.stop()


@check("a dictionary that was replaced is fetched again")
def _():
    following = Following()
    tell("dictionary", id=20260912)
    tell("cut")
    until("the new dictionary", lambda: "zstdDictionary=20260912" in stats()["queries"][-1])
    put(30)
    (commit,) = following.until(1)
    assert commit.rkey == "peer30" and following.client.compressed
    following.stop()


print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
