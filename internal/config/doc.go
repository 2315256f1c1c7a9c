// Package config defines the settings of a server.
//
// The name of a setting is its flag (--lease-ttl), its key in the configuration
// file (lease-ttl), and, in capitals, its environment variable
// (STINT_LEASE_TTL). Flags override the environment, which overrides the file,
// which overrides defaults. The documentation is generated from the table of
// settings.
package config
