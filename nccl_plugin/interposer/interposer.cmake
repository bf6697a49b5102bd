# Door A's engine, within libringpress.so.
add_library(ringpress_interposer OBJECT
  interposer/agreeing_stream_call.cc
  interposer/call_memory.cc
  interposer/chunked_stream_call.cc
  interposer/comm.cc
  interposer/comm_calls.cc
  interposer/comm_choices.cc
  interposer/comm_lazy.cc
  interposer/comm_starts.cc
  interposer/comm_table.cc
  interposer/devices.cc
  interposer/engine.cc
  interposer/engine_comms.cc
  interposer/entry.cc
  interposer/establish.cc
  interposer/exact_call.cc
  interposer/framed_call.cc
  interposer/gossip_comms.cc
  interposer/gossip_peers.cc
  interposer/gossip_workers.cc
  interposer/host_device.cc
  interposer/host_groups.cc
  interposer/lane.cc
  interposer/last_error.cc
  interposer/lazy_call.cc
  interposer/left_comms.cc
  interposer/meeting.cc
  interposer/number_exchange.cc
  interposer/runner.cc
  interposer/stream_clock.cc
  interposer/stream_gather.cc
  interposer/stream_guard.cc
  interposer/stream_hier.cc
  interposer/stream_lazy.cc
  interposer/stream_projection.cc
  interposer/stream_ring.cc
  interposer/stream_sra.cc
  interposer/stream_steps.cc
  interposer/stream_trace.cc
  interposer/workspace.cc
)
ringpress_compile_alone(interposer/host_device.cc interposer/stream_gather.cc interposer/stream_projection.cc
                        interposer/stream_ring.cc)
target_include_directories(ringpress_interposer PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(ringpress_interposer PUBLIC ringpress_include ringpress_firewall
                                                  Threads::Threads)
