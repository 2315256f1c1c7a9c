// Package layers answers: who may import whom?
//
// It holds no code, only the test that keeps the direction of dependencies:
// dictionary ← ports ← adapters; use cases import ports, front doors import
// use cases, one package wires.
package layers
