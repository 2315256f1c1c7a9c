package engine

// Parked is how many sandboxes wait that were prepared ahead.
func (e *Engine) Parked() int { return e.pool.Waiting() }
