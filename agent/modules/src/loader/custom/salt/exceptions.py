"""Salt's exceptions."""
import copy as _copy


def _nested(info):
    from salt import _pinch

    return _pinch.request({"output": info, "out": "nested"})


def get_error_message(error):
    return error.args[0] if error.args else ""


class SaltException(Exception):
    def __init__(self, message=""):
        if isinstance(message, bytes):
            message = message.decode("utf-8", "replace")
        Exception.__init__(self, message)
        self.message = self.strerror = message if isinstance(message, str) else str(message)

    def pack(self):
        return {"message": self.message, "args": self.args}


class CommandExecutionError(SaltException):
    def __init__(self, message="", info=None):
        self.error = text = str(message)
        self.info = info
        self.strerror_without_changes = text
        if info:
            text += "" if not text else " " if text[-1] in ".?!" else ". "
            text += "Additional info follows:\n\n"
            rest = info
            if isinstance(info, dict):
                rest = _copy.copy(info)
                rest.pop("changes", None)
                self.strerror_without_changes = text + _nested(rest) if rest else self.error
            text += _nested(info)
            if rest is info:
                self.strerror_without_changes = text
        SaltException.__init__(self, text)


class SaltRenderError(SaltException):
    def __init__(self, message, line_num=None, buf="", marker="    <======================", trace=None):
        self.error, self.line_num, self.buffer, self.context = message, line_num, buf, ""
        text = str(message)
        if trace:
            text += "\n%s\n" % trace
        if line_num and buf:
            import salt.utils.stringutils

            self.context = salt.utils.stringutils.get_context(buf, line_num, marker=marker)
            text += "; line %s\n\n%s" % (line_num, self.context)
        SaltException.__init__(self, text)


class SaltClientTimeout(SaltException):
    def __init__(self, message, jid=None):
        SaltException.__init__(self, message)
        self.jid = jid


class FileLockError(SaltException):
    def __init__(self, message, time_start=None, *args, **kwargs):
        SaltException.__init__(self, message)
        self.time_start = time_start or 0


class SaltSystemExit(SystemExit):
    def __init__(self, code=0, msg=None):
        SystemExit.__init__(self, msg or code)


class MasterExit(SystemExit):
    pass


def _add(names, *bases):
    for name in names.split():
        globals()[name] = type(name, bases, {"__module__": __name__})


_add("ArgumentValueError CheckError InvalidConfigError InvalidEntityError VMwareSaltError CodePageError", CommandExecutionError)
_add("SaltInvocationError", SaltException, TypeError)
_add("InvalidKeyError", SaltException, ValueError)
_add("LoggingRuntimeError", RuntimeError)
_add(
    "SaltClientError SaltMasterError SaltNoMinionsFound SaltSyndicMasterError SaltMasterUnresolvableError AuthenticationError "
    "CommandNotFoundError LoaderError PublishError MinionError FileserverConfigError GitLockError GitRemoteError PkgParseError "
    "SaltCacheError TimeoutError SaltReqTimeoutError TimedProcTimeoutError EauthAuthenticationError TokenAuthenticationError "
    "TokenExpiredError SaltDeserializationError AuthorizationError SaltValidationError UnsupportedAlgorithm SaltDaemonNotRunning "
    "SaltRunnerError SaltWheelError SaltConfigurationError SaltCloudException NotImplemented TemplateError MissingSmb NxosError",
    SaltException,
)
