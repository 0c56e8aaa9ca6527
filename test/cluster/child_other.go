//go:build !linux

package cluster

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the parts, which are stopped in
// their order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
