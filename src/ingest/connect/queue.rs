//! The bounded way from the socket to the writer: so many frames, and so many bytes, whichever is less; and between
//! them, in their order, what the stream has left out. Nothing is dropped; a full queue stops the reading, and TCP tells the host.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_tungstenite::tungstenite::Bytes;

use super::meters;
use super::resume::GapReason;
use crate::ingest::wire::Wire;

/// Frames between socket and writer. Half would do for a live stream; double only delays the moment at which a slow
/// database is felt.
pub const QUEUE_FRAMES: usize = 4_096;

/// Bytes between socket and writer: eight of the largest messages, so that one of them never waits for itself, and
/// the memory that a stalled database costs.
pub const QUEUE_BYTES: usize = 64 << 20;

/// What the socket's end has for the writer.
#[derive(Debug)]
pub enum Delivery {
    /// A message.
    Frame(Frame),
    /// Something was left out before the next message.
    Gap(Gap),
}

/// The stream has left out what nobody can tell: repositories have to be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Where: host and port.
    pub host: Arc<str>,
    /// By which wire it is followed.
    pub wire: Wire,
    /// How it is known.
    pub reason: GapReason,
    /// The host does not know the position that is saved for it: it has begun to count anew.
    pub forget: bool,
}

/// One message of a host, decompressed.
#[derive(Debug)]
pub struct Frame {
    /// By which wire it came.
    pub wire: Wire,
    /// Whose it is: host and port. Positions are saved under it.
    pub host: Arc<str>,
    /// When it was read from the socket, microseconds since the Unix epoch by this machine's clock.
    pub received_us: i64,
    /// The message.
    pub bytes: Bytes,
    /// Gives its bytes back to the queue's budget when the frame is dropped.
    pub(in crate::ingest) room: Option<OwnedSemaphorePermit>,
}

/// The socket's end.
#[derive(Debug)]
pub struct FrameSender {
    frames: mpsc::Sender<Delivery>,
    room: Arc<Semaphore>,
    budget: u32,
    length: metrics::Gauge,
}

/// The writer's end.
#[derive(Debug)]
pub struct FrameReceiver {
    frames: mpsc::Receiver<Delivery>,
    length: metrics::Gauge,
}

/// The writer has gone: nobody wants frames any more.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::ingest) struct Gone;

/// A queue of at most `frames` frames and `bytes` bytes; the product's are [`QUEUE_FRAMES`] and [`QUEUE_BYTES`].
pub fn queue(frames: usize, bytes: usize) -> (FrameSender, FrameReceiver) {
    let (sender, receiver) = mpsc::channel(frames);
    let budget = u32::try_from(bytes).unwrap_or(u32::MAX);
    let room = Arc::new(Semaphore::new(budget as usize));
    let length = meters::queue_frames();
    (
        FrameSender { frames: sender, room, budget, length: length.clone() },
        FrameReceiver { frames: receiver, length },
    )
}

impl FrameSender {
    /// Waits for room and puts the frame in. Cancel-safe in that a dropped call has put nothing in; the frame is lost.
    pub(in crate::ingest) async fn send(&self, mut frame: Frame) -> Result<(), Gone> {
        // A message over the whole budget takes all of it, rather than wait for ever.
        let size = u32::try_from(frame.bytes.len()).unwrap_or(u32::MAX).min(self.budget);
        let room = Arc::clone(&self.room);
        frame.room = tokio::select! {
            permit = room.acquire_many_owned(size) => Some(permit.map_err(|_| Gone)?),
            () = self.frames.closed() => return Err(Gone),
        };
        self.put(Delivery::Frame(frame)).await
    }

    /// Waits for room and puts the gap in, behind all that was sent before it. Cancel-safe as [`Self::send`] is.
    pub(super) async fn gap(&self, gap: Gap) -> Result<(), Gone> {
        self.put(Delivery::Gap(gap)).await
    }

    async fn put(&self, delivery: Delivery) -> Result<(), Gone> {
        self.frames.send(delivery).await.map_err(|_| Gone)?;
        self.length.set((self.frames.max_capacity() - self.frames.capacity()) as f64);
        Ok(())
    }

    /// Resolves when the writer has gone.
    pub(super) async fn gone(&self) {
        self.frames.closed().await;
    }

    /// Whether the writer has gone.
    pub(super) fn is_gone(&self) -> bool {
        self.frames.is_closed()
    }
}

impl Delivery {
    /// Bytes of the message.
    pub fn size(&self) -> usize {
        match self {
            Self::Frame(frame) => frame.bytes.len(),
            Self::Gap(_) => 0,
        }
    }
}

impl FrameReceiver {
    /// The next frame; `None` once the socket's task has ended and the queue is empty. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Delivery> {
        let frame = self.frames.recv().await;
        self.length.set(self.frames.len() as f64);
        frame
    }

    /// Waits for one frame, then takes what is there up to `limit`. Zero once the queue has ended. Cancel-safe.
    pub async fn recv_many(&mut self, into: &mut Vec<Delivery>, limit: usize) -> usize {
        let taken = self.frames.recv_many(into, limit).await;
        self.length.set(self.frames.len() as f64);
        taken
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn frame(size: usize) -> Frame {
        Frame {
            wire: Wire::V1,
            host: "h:1".into(),
            received_us: 0,
            bytes: vec![b'x'; size].into(),
            room: None,
        }
    }

    #[tokio::test]
    async fn a_queue_is_full_by_frames_or_by_bytes_and_room_comes_back_when_a_frame_is_dropped() {
        let (sender, mut receiver) = queue(2, 100);
        sender.send(frame(60)).await.unwrap();
        assert!(sender.send(frame(60)).now_or_never().is_none(), "120 of 100 bytes");
        sender.send(frame(10)).await.unwrap();
        assert!(sender.send(frame(10)).now_or_never().is_none(), "3 of 2 frames");
        let held = receiver.recv().await.unwrap();
        assert!(sender.send(frame(60)).now_or_never().is_none(), "the writer still holds 60 bytes");
        drop(held);
        sender.send(frame(60)).now_or_never().unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_message_over_the_whole_budget_passes_alone() {
        let (sender, mut receiver) = queue(2, 100);
        sender.send(frame(5_000)).now_or_never().unwrap().unwrap();
        assert!(sender.send(frame(1)).now_or_never().is_none());
        drop(receiver.recv().await.unwrap());
        sender.send(frame(1)).now_or_never().unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_sender_that_waits_for_room_learns_that_the_writer_has_gone() {
        let (sender, receiver) = queue(9, 100);
        sender.send(frame(100)).await.unwrap();
        let waiting = sender.send(frame(1));
        drop(receiver);
        assert_eq!(waiting.await, Err(Gone));
    }
}
