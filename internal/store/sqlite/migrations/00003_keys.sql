-- +goose Up
-- Keys that stored files are encrypted under, sealed under the installation's.
create table org_keys (
	org_id     text not null, -- empty for what belongs to none
	number     integer not null,
	sealed     blob not null,
	created_at integer not null,
	primary key (org_id, number)
) strict, without rowid;
