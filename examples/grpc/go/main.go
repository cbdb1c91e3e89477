// Writes orders over one stream, and reads them as a member of a group, over gRPC:
//
//	barnabas serve --set grpc.listener=127.0.0.1:9095
//	go run . 127.0.0.1:9095
//
// The stubs in gen/ are generated: see the README beside this file.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	barnabasv1 "barnabas.example/gen/barnabas/v1"
)

const (
	topic   = "go-orders"
	batches = 10
	each    = 100
)

func main() {
	address := "127.0.0.1:9095"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	connection, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second}))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	bus := barnabasv1.NewBusServiceClient(connection)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	if err := create(ctx, bus); err != nil {
		log.Fatal(err)
	}
	written, err := produce(ctx, bus)
	if err != nil {
		log.Fatal(err)
	}
	read, err := consume(ctx, bus, written)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("written %d, read %d\n", written, read)
}

func create(ctx context.Context, bus barnabasv1.BusServiceClient) error {
	_, err := bus.CreateTopic(ctx, &barnabasv1.CreateTopicRequest{Name: topic, Partitions: 3})
	if status.Code(err) == codes.AlreadyExists {
		return nil
	}
	return err
}

// produce sends all requests, and takes the acknowledgements as they come.
func produce(ctx context.Context, bus barnabasv1.BusServiceClient) (int, error) {
	stream, err := bus.ProduceStream(ctx)
	if err != nil {
		return 0, err
	}
	go func() {
		defer stream.CloseSend()
		options := &barnabasv1.ProduceStreamOptions{Topic: topic, Compression: barnabasv1.Compression_COMPRESSION_ZSTD}
		for batch := range batches {
			request := &barnabasv1.ProduceStreamRequest{}
			if batch == 0 {
				request.Options = options
			}
			for number := range each {
				request.Records = append(request.Records, &barnabasv1.NewRecord{
					Key:   []byte(fmt.Sprintf("customer-%d", number%7)),
					Value: []byte(fmt.Sprintf("order %d", batch*each+number)),
				})
			}
			if stream.Send(request) != nil {
				return // Recv says why
			}
		}
	}()
	written := 0
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return written, nil
		}
		if err != nil {
			return written, err
		}
		for _, outcome := range response.Outcomes {
			if outcome.Error != nil {
				return written, fmt.Errorf("refused: %s", outcome.Error.Message)
			}
			written++
		}
	}
}

// consume reads until it has as many records, and acknowledges each response.
func consume(ctx context.Context, bus barnabasv1.BusServiceClient, count int) (int, error) {
	stream, err := bus.Consume(ctx)
	if err != nil {
		return 0, err
	}
	options := &barnabasv1.ConsumeOptions{
		Topics:                []*barnabasv1.TopicSelection{{Topic: topic}},
		Group:                 "go-billing",
		MaxOutstandingRecords: 500,
	}
	first := &barnabasv1.ConsumeRequest{Request: &barnabasv1.ConsumeRequest_Options{Options: options}}
	if err := stream.Send(first); err != nil {
		return 0, err
	}
	read := 0
	for read < count {
		response, err := stream.Recv()
		if err != nil {
			return read, err
		}
		records := response.GetRecords()
		if records == nil {
			continue // partitions that came or went, or a commit
		}
		read += len(records.Records)
		position := &barnabasv1.Position{Topic: records.Topic, Partition: records.Partition, Offset: records.NextOffset}
		acknowledge := &barnabasv1.Acknowledge{Positions: []*barnabasv1.Position{position}}
		err = stream.Send(&barnabasv1.ConsumeRequest{
			Request: &barnabasv1.ConsumeRequest_Acknowledge{Acknowledge: acknowledge},
		})
		if err != nil {
			return read, err
		}
	}
	if err := stream.CloseSend(); err != nil { // what is acknowledged is committed now
		return read, err
	}
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return read, nil
		} else if err != nil {
			return read, err
		}
	}
}
