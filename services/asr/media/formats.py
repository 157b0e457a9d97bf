"""Which files are opened at all: containers of recordings, from local files."""

PROTOCOLS = "file,pipe"
FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,flv,live_flv,mpegts,mpeg,mpegvideo,avi,asf,ogg,"
    "mp3,wav,w64,aac,flac,amr,aiff,caf,ac3,eac3,mxf,h264,hevc"
)
# A transport stream that is switched to another encoder goes on under other numbers of its streams.
TRANSPORT_STREAM = {"merge_pmt_versions": "1"}
OPEN_OPTIONS = {"protocol_whitelist": PROTOCOLS, "format_whitelist": FORMATS, **TRANSPORT_STREAM}
# So far a demuxer looks for a stream that begins late, in microseconds and bytes, which it keeps in memory.
LOOK_LONGER = {"analyzeduration": "1200000000", "probesize": str(256 << 20)}
