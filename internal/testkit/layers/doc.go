// Package layers contains only a test: each package may import only packages of its
// own folder and of lower layers.
package layers
