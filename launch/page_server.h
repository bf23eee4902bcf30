// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ventris {

/// A server of one page for web browsers of this machine: it listens on 127.0.0.1, answers GET and HEAD with
/// HTTP/1.1 and nothing but two documents, "/" and "/stamp", and these only to who has the token of its
/// address. A request has at most kMaxRequestBytes and kMaxSeconds, and its answer, once it is made, as many;
/// there are at most kMaxConnections at a time, of which each has one request; a further one takes the place
/// of that which has waited longest without a whole request. Requests wait while an answer is made. It reads
/// and writes no file itself.
class PageServer {
 public:
  static constexpr size_t kMaxRequestBytes = 8192;
  static constexpr int kMaxSeconds = 20;
  static constexpr size_t kMaxConnections = 32;

  /// Throws Error(kUnavailable) if the port is taken or may not be used; 0: any that is free.
  explicit PageServer(int port);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  /// "http://127.0.0.1:8080/?token=..."
  std::string address() const;

  struct Documents {
    std::function<std::shared_ptr<const std::string>()> page;  // HTML; its exceptions are answered with 503
    std::function<std::string()> stamp;                        // a text that changes with the page
  };
  /// Answers requests until the process ends.
  [[noreturn]] void serve(const Documents& documents);

 private:
  struct Connection;
  void accept_all();
  /// False when the connection is done.
  bool progress(Connection& connection, const Documents& documents) const;
  void answer(Connection& connection, const Documents& documents) const;
  bool is_for_us(const std::string& host) const;

  int listener_ = -1;
  int port_ = 0;
  const std::string token_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace ventris
