// The one seam for messages between the processes (ranks) of a job.
//
// A transport starts things and is asked how they are; it never waits. It is used by one thread (dist/post).
// Behind it stands Open MPI (dist/open), or, in tests, ranks that are threads of one process, with delay,
// reordering and loss (transport_fakes.hpp).
//
// Messages with the same sender, receiver, channel and tag come in the order in which they were sent. Others
// may come in any order. A send may be over only when it is received: nobody may count on room in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ebb/base/error.hpp"

namespace ebb {

// Traffic that must not meet: a message is received on the channel on which it was sent.
enum class Channel : std::uint8_t {
  control,  // votes, barriers, small values
  data,     // what training sends
  watch,    // signs of life
};
inline constexpr int kChannels = 3;

struct Address {
  int peer = 0;  // who it goes to, or comes from
  Channel channel = Channel::control;
  int tag = 0;  // 0 to kLargestTag
  bool operator==(const Address&) const = default;
};
inline constexpr int kLargestTag = 32767;  // what every MPI has
inline constexpr std::size_t kLargestMessage = std::size_t{1} << 30;

// A message that is longer than the room for it: sender and receiver do not agree. Both are Ebb's.
class MessageTooLong : public Error {
 public:
  using Error::Error;
};

class Transport {
 public:
  using Request = std::uint64_t;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string host() const = 0;  // of this rank

  // The bytes stay where they are until test() has said that it is over. An Error where it cannot be begun.
  virtual Request send(const Address& to, std::span<const std::byte> bytes) = 0;
  virtual Request receive(const Address& from, std::span<std::byte> bytes) = 0;
  // Nothing: under way. Else the bytes that were sent or have come, and the request is spent. An Error, and
  // spent too, where it has failed: MessageTooLong, or a peer that cannot be reached.
  virtual std::optional<std::size_t> test(Request request) = 0;
  // Of a receive for which nothing will come; it is spent.
  virtual void cancel(Request request) = 0;

  // Ends all ranks at once, this one too; where ranks are threads, it comes back.
  virtual void abort(int code) = 0;
  // The orderly end, once, on all ranks. Nothing is under way.
  virtual void close() = 0;
};

}  // namespace ebb
