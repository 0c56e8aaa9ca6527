package cluster

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the parts, which are stopped in
// their order, and end them with a parent that could not stop them.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
