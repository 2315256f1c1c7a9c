package worker

// Pooled returns the number of prepared sandboxes.
func (w *Worker) Pooled() int { return w.shared.Pool.Size() }
