// SPDX-License-Identifier: Apache-2.0
#include "launch/page_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>

#include "backend/error.h"

namespace ventris {
namespace {

using Clock = std::chrono::steady_clock;

std::string new_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    fail(ExitCode::kUnavailable, "cannot make a token: {}", std::strerror(errno));
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

/// In a time that does not depend on where they differ.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

struct Request {
  std::string method;
  std::string path;
  std::string token;  // "" if there is none
  std::vector<std::string> hosts;
};

/// Nothing if the head is not that of a request of HTTP/1.
std::optional<Request> parsed_request(std::string_view head) {
  std::optional<Request> none;
  const size_t first_end = head.find("\r\n");
  const std::string_view first = head.substr(0, first_end);
  const size_t method_end = first.find(' ');
  const size_t target_end = first.rfind(' ');
  if (method_end == std::string_view::npos || target_end <= method_end) return none;
  if (!first.substr(target_end + 1).starts_with("HTTP/1.")) return none;
  const std::string_view target = first.substr(method_end + 1, target_end - method_end - 1);
  Request request;
  request.method = first.substr(0, method_end);
  request.path = target.substr(0, target.find('?'));
  constexpr std::string_view kToken = "?token=";
  if (const std::string_view query = target.substr(request.path.size()); query.starts_with(kToken))
    request.token = query.substr(kToken.size());
  for (size_t at = first_end; at != std::string_view::npos && at + 2 < head.size();) {
    const size_t begin = at + 2;
    at = head.find("\r\n", begin);
    const std::string_view line = head.substr(begin, at == std::string_view::npos ? at : at - begin);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return none;
    if (lower(line.substr(0, colon)) == "host") request.hosts.emplace_back(trimmed(line.substr(colon + 1)));
  }
  return request;
}

std::string head_of(std::string_view status, std::string_view type, size_t bytes) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n"
      "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
      "X-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\n{}\r\n",
      status, type, bytes, status.starts_with("405") ? "Allow: GET, HEAD\r\n" : "");
}

}  // namespace

struct PageServer::Connection {
  explicit Connection(int descriptor_in)
      : descriptor(descriptor_in), deadline(Clock::now() + std::chrono::seconds(kMaxSeconds)) {}
  ~Connection() { ::close(descriptor); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const int descriptor;
  Clock::time_point deadline;
  std::string request = {};
  bool answered = false;
  std::string head = {};  // then the body, if any
  std::shared_ptr<const std::string> body = nullptr;
  size_t sent = 0;
};

PageServer::PageServer(int port) : token_(new_token()) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener_ < 0) fail(ExitCode::kUnavailable, "cannot make a socket: {}", std::strerror(errno));
  const int on = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listener_, static_cast<int>(kMaxConnections)) != 0) {
    const std::string reason = std::strerror(errno);
    ::close(listener_);
    fail(ExitCode::kUnavailable,
         "--port {}: cannot listen there on 127.0.0.1: {}. Give another port, or none for any that is free",
         port, reason);
  }
  socklen_t size = sizeof(address);
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
}

PageServer::~PageServer() {
  ::close(listener_);
}

std::string PageServer::address() const {
  return fmt::format("http://127.0.0.1:{}/?token={}", port_, token_);
}

/// Other names could be those of a page of the network that was made to resolve to this machine.
bool PageServer::is_for_us(const std::string& host) const {
  const std::string name = lower(host);
  return name == fmt::format("127.0.0.1:{}", port_) || name == fmt::format("localhost:{}", port_);
}

void PageServer::accept_all() {
  while (true) {
    const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0) return;  // none left, or no descriptor: then one is free when another connection ends
    if (connections_.size() >= kMaxConnections) {
      const auto idle = std::find_if(connections_.begin(), connections_.end(),
                                     [](const auto& connection) { return !connection->answered; });
      if (idle == connections_.end()) {
        ::close(descriptor);
        continue;
      }
      connections_.erase(idle);
    }
    connections_.push_back(std::make_unique<Connection>(descriptor));
  }
}

void PageServer::answer(Connection& connection, const Documents& documents) const {
  connection.answered = true;
  const auto reply = [&](std::string_view status, std::string_view type,
                         std::shared_ptr<const std::string> body) {
    connection.head = head_of(status, type, body->size());
    connection.body = std::move(body);
  };
  const auto refuse = [&](std::string_view status, const std::string& why) {
    reply(status, "text/plain", std::make_shared<const std::string>(why + "\n"));
  };
  const size_t end = connection.request.find("\r\n\r\n");
  if (end == std::string::npos)
    return refuse("431 Request Header Fields Too Large", "the request is too long");
  const std::optional<Request> request = parsed_request(std::string_view(connection.request).substr(0, end));
  if (!request || request->hosts.size() != 1) return refuse("400 Bad Request", "not a request of HTTP/1");
  if (!is_for_us(request->hosts.front()))
    return refuse("403 Forbidden", "this server is for 127.0.0.1 and localhost");
  if (!same(request->token, token_))
    return refuse("403 Forbidden", "the token is missing or wrong: open the whole address that was printed");
  const bool head_only = request->method == "HEAD";
  if (!head_only && request->method != "GET") return refuse("405 Method Not Allowed", "GET and HEAD only");
  try {
    if (request->path == "/") {
      reply("200 OK", "text/html", documents.page());
    } else if (request->path == "/stamp") {
      reply("200 OK", "text/plain", std::make_shared<const std::string>(documents.stamp()));
    } else {
      refuse("404 Not Found", "there is nothing else here");
    }
  } catch (const std::exception& error) {
    refuse("503 Service Unavailable", error.what());
  }
  if (head_only) connection.body = std::make_shared<const std::string>();
}

bool PageServer::progress(Connection& connection, const Documents& documents) const {
  if (Clock::now() > connection.deadline) return false;
  while (!connection.answered) {
    char buffer[2048];
    const ssize_t got = ::recv(connection.descriptor, buffer, sizeof(buffer), 0);
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    connection.request.append(buffer, static_cast<size_t>(got));
    if (connection.request.find("\r\n\r\n") != std::string::npos ||
        connection.request.size() > kMaxRequestBytes)
      answer(connection, documents);
    if (connection.answered) connection.deadline = Clock::now() + std::chrono::seconds(kMaxSeconds);
  }
  const size_t all = connection.head.size() + connection.body->size();
  while (connection.sent < all) {
    const bool in_head = connection.sent < connection.head.size();
    const std::string& part = in_head ? connection.head : *connection.body;
    const size_t at = in_head ? connection.sent : connection.sent - connection.head.size();
    const ssize_t done = ::send(connection.descriptor, part.data() + at, part.size() - at, MSG_NOSIGNAL);
    if (done < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    connection.sent += static_cast<size_t>(done);
  }
  return false;
}

void PageServer::serve(const Documents& documents) {
  while (true) {
    std::vector<pollfd> waits = {{.fd = listener_, .events = POLLIN, .revents = 0}};
    for (const auto& connection : connections_) {
      const auto events = static_cast<short>(connection->answered ? POLLOUT : POLLIN);
      waits.push_back({.fd = connection->descriptor, .events = events, .revents = 0});
    }
    constexpr int kMilliseconds = 500;  // by which a deadline may be late
    ::poll(waits.data(), waits.size(), kMilliseconds);
    std::erase_if(connections_, [&](const auto& connection) { return !progress(*connection, documents); });
    accept_all();
  }
}

}  // namespace ventris
