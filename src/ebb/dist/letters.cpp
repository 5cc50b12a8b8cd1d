// What a world sends and receives for others: messages of its post.
#include "ebb/dist/post.hpp"
#include "ebb/dist/world.hpp"

namespace ebb::dist {

namespace {

class Posted final : public Ranks::Letter {
 public:
  Posted(Post& post, Message::Direction direction, const Address& address,
         std::span<std::byte> bytes)
      : post_(post), message_(direction, address, bytes) {}
  void start() override { post_.start(message_); }
  void wait() override { post_.wait(message_); }

 private:
  Post& post_;
  Message message_;
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
