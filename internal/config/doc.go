// Package config answers: what can an operator set?
//
// One struct holds every setting of a server. A setting has one name, which is
// its flag (--lease-ttl), its key in the configuration file (lease-ttl) and,
// in capitals, its environment variable (STINT_LEASE_TTL). Flags go before the
// environment, the environment before the file, the file before the defaults.
// The table of settings is also what the documentation is made from.
package config
