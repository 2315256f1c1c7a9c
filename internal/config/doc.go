// Package config defines the settings of a server.
//
// A setting such as lease-ttl has a flag (--lease-ttl), a key in the configuration
// file (lease-ttl), and an environment variable (STINT_LEASE_TTL). Flags override
// the environment, the environment overrides the file, and the file overrides
// defaults. The documentation is generated from the result of Settings.
package config
