// The algorithm that doc.go describes, in JavaScript and written for
// comparison, not for speed: every item is scored, and all are sorted.

const modulo64 = (n) => BigInt.asUintN(64, n);

// hashKey returns the hash of a key, a Uint8Array, as a BigInt.
export function hashKey(key) {
  let h = 0xcbf29ce484222325n;
  for (const byte of key) {
    h = modulo64((h ^ BigInt(byte)) * 0x100000001b3n);
  }
  return h;
}

// score returns what an item is worth to the key of that hash, as a BigInt.
export function score(hash, item) {
  let z = modulo64(hash + (BigInt(item) + 1n) * 0x9e3779b97f4a7c15n);
  z = modulo64((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
  z = modulo64((z ^ (z >> 27n)) * 0x94d049bb133111ebn);
  return z ^ (z >> 31n);
}

// get returns the shard of a key, a string or a Uint8Array: count of the items
// 0 to items-1, the one with the highest score first.
export function get(items, count, key) {
  const hash = hashKey(typeof key === "string" ? new TextEncoder().encode(key) : key);
  const scored = [];
  for (let item = 0; item < items; item++) {
    scored.push({ item, score: score(hash, item) });
  }
  scored.sort((a, b) => (a.score > b.score ? -1 : 1));
  return scored.slice(0, Math.max(count, 0)).map(({ item }) => item);
}
