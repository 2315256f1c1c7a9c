-- +goose Up
-- What the worker of each installation offers, as it last recorded it.
create table hosts (
	host       text collate "C" not null primary key,
	isolations text collate "C" not null, -- JSON list of names
	frameworks text collate "C" not null, -- JSON list of names
	labels     text collate "C" not null, -- JSON object
	seen_at    bigint not null -- by the database's clock
);
