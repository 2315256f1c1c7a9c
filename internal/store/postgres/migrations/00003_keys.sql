-- +goose Up
-- Keys that stored files are encrypted under, sealed under the installation's.
create table org_keys (
	org_id     text collate "C" not null, -- empty for what belongs to none
	number     bigint not null,
	sealed     bytea not null,
	created_at bigint not null,
	primary key (org_id, number)
);
