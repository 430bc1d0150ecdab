package budget_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/budget"
)

// Share two cores and 1 MiB among operations.
func Example() {
	ctx := context.Background()
	b := budget.New(2, 1<<20)
	squares := make([]int, 4)
	err := b.Each(ctx, len(squares), func(_ context.Context, i int) error {
		squares[i] = i * i
		return nil
	})
	fmt.Println(squares, err)

	_, err = b.Reserve(ctx, 2<<20)
	var limit *budget.LimitError
	if errors.As(err, &limit) {
		fmt.Println(limit.Need, "bytes needed, limit", limit.Limit)
	}
	// Output:
	// [0 1 4 9] <nil>
	// 2097152 bytes needed, limit 1048576
}
