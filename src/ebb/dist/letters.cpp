// What a world sends and receives for others: messages of its post.
#include "ebb/base/timeline.hpp"
#include "ebb/dist/post.hpp"
#include "ebb/dist/world.hpp"

namespace ebb::dist {

namespace {

class Posted final : public Ranks::Letter {
 public:
  Posted(Post& post, Message::Direction direction, const Address& address,
         std::span<std::byte> bytes)
      : post_(post),
        message_(direction, address, bytes),
        peer_(address.peer),
        what_(direction == Message::Direction::send ? "wait until a message is gone"
                                                    : "wait for a message") {}
  void start() override { post_.start(message_); }
  void wait() override {
    if (post_.over(message_)) return;
    timeline::Slice wait(what_, timeline::Kind::wait);
    wait.event().peer = peer_;
    wait.event().scope = message_.about();
    post_.wait(message_);
  }

 private:
  Post& post_;
  Message message_;
  const int peer_;
  const char* const what_;
};

}  // namespace

std::unique_ptr<Ranks::Letter> World::letter_to(int rank, int tag,
                                                std::span<const std::byte> bytes) {
  return std::make_unique<Posted>(
      *post(), Message::Direction::send, Address{rank, Channel::data, tag},
      std::span(const_cast<std::byte*>(bytes.data()), bytes.size()));  // only read
}

std::unique_ptr<Ranks::Letter> World::letter_from(int rank, int tag, std::span<std::byte> bytes) {
  return std::make_unique<Posted>(*post(), Message::Direction::receive,
                                  Address{rank, Channel::data, tag}, bytes);
}

}  // namespace ebb::dist
