-- The tables of the outbox. A program writes a row into outbox in the transaction of its business data; the rest belongs to
-- the relay.

CREATE TABLE IF NOT EXISTS outbox (
	id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant      text NOT NULL CHECK (octet_length(tenant) BETWEEN 1 AND 512),
	body        bytea NOT NULL CHECK (octet_length(body) <= 1000000), -- what a message can hold: a row that cannot be sent would stop its source

	-- A tenant has one source, so its rows are sent in order. Eight sources are sent in parallel.
	source      int NOT NULL GENERATED ALWAYS AS (get_byte(decode(md5(tenant), 'hex'), 0) % 8) STORED,

	-- The place of the row in its source: 1, 2, 3 and so on. The relay sets and commits it before it sends the row.
	position    bigint,
	numbered_at timestamptz
);
CREATE INDEX IF NOT EXISTS outbox_new ON outbox (source, id) WHERE position IS NULL;
CREATE UNIQUE INDEX IF NOT EXISTS outbox_position ON outbox (source, position) WHERE position IS NOT NULL;

CREATE TABLE IF NOT EXISTS outbox_sources (
	source   int PRIMARY KEY,
	numbered bigint NOT NULL DEFAULT 0, -- the last position that a row has
	sent     bigint NOT NULL DEFAULT 0  -- the last position that is in the queue
);
INSERT INTO outbox_sources SELECT generate_series(0, 7) ON CONFLICT DO NOTHING;

-- Wakes relays. NOTIFY takes a lock while the transaction commits: with thousands of transactions a second leave the trigger
-- out, and relays look once in each --poll.
CREATE OR REPLACE FUNCTION outbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NOTIFY outbox;
	RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER outbox_notify AFTER INSERT ON outbox FOR EACH STATEMENT EXECUTE FUNCTION outbox_notify();

-- The business data of this example.
CREATE TABLE IF NOT EXISTS orders (
	id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant text NOT NULL,
	item   text NOT NULL
);
