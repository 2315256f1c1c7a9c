-- +goose Up
-- The hosts that a secret may be sent to, and the agents that may use it (JSON lists);
-- null: not limited.
alter table secrets add column hosts text;
alter table secrets add column agents text;

-- Earlier releases gave all stored secrets of an organisation to each of its runs. Now a
-- run receives those that its definition names. What follows is needed to report the
-- difference: the secrets of that time, the agents whose current version is of that time,
-- and the organisations whose warning has not been logged yet (0 or 1).
alter table secrets add column unnamed integer not null default 0;
alter table agents add column unnamed_secrets integer not null default 0;
alter table orgs add column secrets_notice integer not null default 0;
update secrets set unnamed = 1;
update agents set unnamed_secrets = 1;
update orgs set secrets_notice = 1 where id in (select org_id from secrets);
