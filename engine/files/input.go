package files

// Input is an input file opened through a Root.
type Input struct{}
