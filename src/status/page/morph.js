// Puts new elements in the place of old ones by changing what differs, twice a second: what has the focus keeps it, what
// is selected stays so, and a screen reader hears only of what has changed.

/** Makes these the children of `place`. Those with a `data-key` are found again by it, others by their place. */
export function put(place, ...children) {
  const old = [...place.childNodes];
  const keyed = new Map(old.filter((child) => keyOf(child)).map((child) => [keyOf(child), child]));
  const free = old.filter((child) => !keyOf(child));
  const wanted = children.flat(Infinity).filter(Boolean).map((fresh) => {
    fresh = typeof fresh === "string" ? document.createTextNode(fresh) : fresh;
    const key = keyOf(fresh);
    const match = key ? keyed.get(key) : free.shift();
    if (key) keyed.delete(key);
    return match && same(match, fresh) ? morph(match, fresh) : fresh;
  });
  const kept = new Set(wanted);
  for (const child of old) if (!kept.has(child)) child.remove();
  wanted.forEach((child, at) => {
    if (place.childNodes[at] !== child) place.insertBefore(child, place.childNodes[at] ?? null);
  });
}

function keyOf(child) {
  return child.dataset?.key;
}

function same(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName;
}

function morph(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return old;
  }
  for (const { name } of [...old.attributes]) {
    // Whether details are open is the reader's choice.
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  put(old, ...fresh.childNodes);
  return old;
}
