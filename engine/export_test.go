package engine

// Remembered is how many semaphores the replica knows something of.
func (e *Engine) Remembered() int { return len(e.semaphores()) }
