package printable

import "fmt"

// Size formats a number of bytes for people: 512 B, 1.5 KiB, 290.3 MiB.
func Size(n int64) string {
	if n > -1024 && n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, units := float64(n)/1024, []string{"KiB", "MiB", "GiB", "TiB"}
	for (v >= 1023.95 || v <= -1023.95) && len(units) > 1 {
		v, units = v/1024, units[1:]
	}
	return fmt.Sprintf("%.1f %s", v, units[0])
}
